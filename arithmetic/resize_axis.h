// The weights of one axis of an antialiased bilinear resize (augment/resize.h defines it): which source
// pixels contribute to an output pixel, and with which weight. For the host and a GPU, with the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "dlpipe/dtype.h"

namespace dlpipe {

/// Fraction bits of a weight: 32 bits minus 8 of the pixel and 2 of headroom.
inline constexpr int kWeightBits = 32 - 8 - 2;
/// Added before the shift, so that the shift rounds to nearest.
inline constexpr int32_t kWeightHalf = 1 << (kWeightBits - 1);

/// Converts a sum of weighted pixels that started with kWeightHalf to a pixel. Weights are positive and sum
/// to 1 (up to rounding), so the result is in 0..255 without clipping.
DLPIPE_HOST_DEVICE uint8_t weighted_pixel(int32_t sum) {
  return static_cast<uint8_t>(sum >> kWeightBits);
}

/// Whether the vertical pass comes first (see augment/resize.h), given the sizes of the whole source and output.
DLPIPE_HOST_DEVICE bool is_vertical_first(int source_width, int source_height, int out_width,
                                          int out_height) {
  const int64_t fewer_rows = int64_t{source_height} - out_height;
  const int64_t fewer_columns = int64_t{source_width} - out_width;
  return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

/// a * b, rounded. nvcc would otherwise fuse a product and a sum into one operation, which rounds only once.
DLPIPE_HOST_DEVICE double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

struct ResizeAxis {
  int source_size;
  int box_begin;
  int out_size;
  double scale;    // source pixels per output pixel
  double support;  // half the width of the triangle, in source pixels

  DLPIPE_HOST_DEVICE ResizeAxis(int source_size_in, int box_begin_in, int box_size, int out_size_in)
      : source_size(source_size_in),
        box_begin(box_begin_in),
        out_size(out_size_in),
        scale(static_cast<double>(box_size) / out_size_in),
        support(scale > 1.0 ? scale : 1.0) {}

  /// True if every output pixel is one source pixel: the pass changes nothing.
  bool is_identity() const { return box_begin == 0 && scale == 1.0 && out_size == source_size; }
  DLPIPE_HOST_DEVICE double center(int i) const { return box_begin + rounded_product(i + 0.5, scale); }
  // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow rounds so, and nothing here is far below 0
  /// Source pixels [begin, end) that may contribute to output pixel i.
  DLPIPE_HOST_DEVICE int begin(int i) const {
    const int first = static_cast<int>(center(i) - support + 0.5);
    return first > 0 ? first : 0;
  }
  DLPIPE_HOST_DEVICE int end(int i) const {
    const int last = static_cast<int>(center(i) + support + 0.5);
    return last < source_size ? last : source_size;
  }
  // NOLINTEND(bugprone-incorrect-roundings)
  /// An upper bound of end(i) - begin(i).
  int max_taps() const { return static_cast<int>(std::ceil(support)) * 2 + 1; }

  /// The weight of source pixel `j` for an output pixel with its centre at `middle`, before the weights are
  /// normalised to sum to 1.
  DLPIPE_HOST_DEVICE double real_weight(int j, double middle, double per_pixel) const {
    const double distance = std::fabs(rounded_product(j - middle + 0.5, per_pixel));
    return distance < 1.0 ? 1.0 - distance : 0.0;
  }
  /// A weight in fixed point, given the sum of all weights.
  DLPIPE_HOST_DEVICE static int32_t fixed_weight(double real, double sum) {
    const double weight = sum != 0 ? real / sum : real;
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): as Pillow, of what is not negative
    return static_cast<int32_t>(0.5 + rounded_product(weight, 1 << kWeightBits));
  }

  /// Writes the end(i) - begin(i) weights of output pixel i; `real` is scratch for as many doubles.
  void weights(int i, double* real, int32_t* fixed) const {
    const int first = begin(i);
    weights_at(center(i) - first, end(i) - first, real, fixed);
  }
  /// The same, given the offset of the output pixel's centre from its first source pixel. That difference is
  /// exact, so the weights have the same bits wherever the pixels are.
  void weights_at(double place, int taps, double* real, int32_t* fixed) const {
    const double per_pixel = 1.0 / support;
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      real[t] = real_weight(t, place, per_pixel);
      sum += real[t];
    }
    for (int t = 0; t < taps; ++t) fixed[t] = fixed_weight(real[t], sum);
  }
};

}  // namespace dlpipe
