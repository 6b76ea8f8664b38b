// The two inner loops of the resize, in Highway, chosen at run time for the CPU. Internal to augment:
// resize.cpp prepares the tables and calls them.
//
// Arithmetic: a weight k of 22 bits after the point, |k| < 2^23, is split into k = high * 2^8 + low with 0 <= low < 2^8
// and |high| < 2^15, so that 16-bit multiply-adds of pixel pairs (one instruction for two taps) give the exact 32-bit
// sum:
//   sum k p = 2^8 sum high p + sum low p.
// Sums are computed modulo 2^32, and the final one fits: weights add up to 2^22, their absolute values to less than 2^23
// (negative ones are Lanczos' and the cubic's), and pixels are below 2^8. Pixels are clipped to 0..255. If a size is halved,
// doubled or quartered, most weights have at most 14 bits after the point, and half of the products are skipped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arithmetic/resize_axis.h"
#include "augment/resize.h"

namespace dlpipe::augment {

/// Rows that the horizontal kernel processes at once.
inline constexpr int kRowGroup = 4;
/// Bytes that the kernels may read past a row's last pixel, and write past an output row's.
inline constexpr size_t kRowPadding = 64;

/// Bits of a weight's low part.
inline constexpr int kLowBits = 8;

/// Two taps' weights: the low parts and the high parts of weights t and t + 1, as pairs of 16 bits.
struct WeightPair {
  uint32_t low = 0;
  uint32_t high = 0;
};
inline WeightPair weight_pair(int32_t first, int32_t second) {
  const auto pack = [](int32_t a, int32_t b) {
    return (static_cast<uint32_t>(a) & 0xffff) | (static_cast<uint32_t>(b) << 16);
  };
  constexpr int32_t kLow = (1 << kLowBits) - 1;
  return {pack(first & kLow, second & kLow), pack(first >> kLowBits, second >> kLowBits)};
}

/// Where each output pixel of a row starts reading, and its weights.
struct HorizontalTable {
  const int32_t* offsets = nullptr;     // [count, rounded up to 4], in bytes
  const WeightPair* weights = nullptr;  // [count, rounded up to 4][pairs]
  const uint8_t* has_low = nullptr;     // [count, rounded up to 4], whether any low part isn't 0
  int pairs = 0;                        // 1, or even
  int count = 0;
};

struct ResizeKernels {
  /// Resizes kRowGroup rows of 3 or 4 channels; input rows may repeat, and so may unused output rows. Reads up to kRowPadding
  /// bytes past a row, writes nothing past an output row.
  void (*horizontal)(const uint8_t* const* rows, int channels, const HorizontalTable& table,
                     uint8_t* const* out);
  /// out[i] = the weighted sum of rows[0..2 pairs)[i], for i < size; reads and writes nothing past the end. `has_low`: whether
  /// any weight's low part is not 0.
  void (*vertical)(const uint8_t* const* rows, const WeightPair* weights, int pairs, bool has_low,
                   size_t size, uint8_t* out);
  /// out[4 i + r] = rows[r][i], for i < size, and back. Grey rows, four at a time, are resized as 4 channels.
  void (*interleave)(const uint8_t* const* rows, size_t size, uint8_t* out);
  void (*deinterleave)(const uint8_t* in, size_t size, uint8_t* const* rows);
};

/// The kernels of the best instruction set that this CPU has.
ResizeKernels resize_kernels();

// The two axes of a resize. Their weights are in arithmetic/resize_axis.h.

inline ResizeAxis horizontal_axis(const ResizeGeometry& g) {
  return {g.source_width, g.box.x, g.box.width, g.out_width};
}
inline ResizeAxis vertical_axis(const ResizeGeometry& g) {
  return {g.source_height, g.box.y, g.box.height, g.out_height};
}
/// For the whole source and output, not box and window.
inline bool is_vertical_first(const ResizeGeometry& g) {
  return dlpipe::is_vertical_first(g.source_width, g.source_height, g.out_width, g.out_height);
}

}  // namespace dlpipe::augment
