// The weights of one axis of a resize: which source pixels an output pixel takes, and with what weight.
// Shared by the fast resize and its scalar twin.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dlpipe/augment/resize.h"

namespace dlpipe::augment {

/// Bits after the point of a weight: 8 bits of pixel, 2 bits of headroom, the rest of 32.
inline constexpr int kWeightBits = 32 - 8 - 2;
/// Added before the shift, so that the shift rounds to nearest.
inline constexpr int32_t kWeightHalf = 1 << (kWeightBits - 1);

/// Which pass comes first: see resize.h. Of the whole source and output, not of box and window.
inline bool is_vertical_first(const ResizeGeometry& g) {
  const int64_t fewer_rows = int64_t{g.source_height} - g.out_height;
  const int64_t fewer_columns = int64_t{g.source_width} - g.out_width;
  return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

struct ResizeAxis {
  int source_size = 0;
  int box_begin = 0;
  int out_size = 0;
  double scale = 1;    // source pixels an output pixel
  double support = 1;  // half the width of the triangle, in source pixels

  ResizeAxis(int source_size_in, int box_begin_in, int box_size, int out_size_in)
      : source_size(source_size_in),
        box_begin(box_begin_in),
        out_size(out_size_in),
        scale(static_cast<double>(box_size) / out_size_in),
        support(std::max(scale, 1.0)) {}
  static ResizeAxis horizontal(const ResizeGeometry& g) {
    return ResizeAxis(g.source_width, g.box.x, g.box.width, g.out_width);
  }
  static ResizeAxis vertical(const ResizeGeometry& g) {
    return ResizeAxis(g.source_height, g.box.y, g.box.height, g.out_height);
  }

  /// True when every output pixel is one source pixel: the pass changes nothing.
  bool is_identity() const { return box_begin == 0 && scale == 1.0 && out_size == source_size; }
  double center(int i) const { return box_begin + (i + 0.5) * scale; }
  /// Source pixels [begin, end) that output pixel i may take.
  int begin(int i) const { return std::max(0, static_cast<int>(center(i) - support + 0.5)); }
  int end(int i) const { return std::min(source_size, static_cast<int>(center(i) + support + 0.5)); }
  /// An upper bound of end(i) - begin(i).
  int max_taps() const { return static_cast<int>(std::ceil(support)) * 2 + 1; }

  /// Writes the end(i) - begin(i) weights of output pixel i; `real` is room for as many doubles.
  void weights(int i, double* real, int32_t* fixed) const {
    const double middle = center(i);
    const double per_pixel = 1.0 / support;
    const int first = begin(i);
    const int taps = end(i) - first;
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      const double distance = std::abs((t + first - middle + 0.5) * per_pixel);
      real[t] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += real[t];
    }
    for (int t = 0; t < taps; ++t) {
      const double weight = sum != 0 ? real[t] / sum : real[t];
      fixed[t] = static_cast<int32_t>(0.5 + weight * (1 << kWeightBits));
    }
  }
};

}  // namespace dlpipe::augment
