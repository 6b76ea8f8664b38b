// The two inner loops of the resize, in Highway, chosen at run time for the CPU. Internal to augment:
// resize.cpp prepares the tables and calls them.
//
// Arithmetic: a weight k of 22 bits is split into k = high * 2^15 + low with 0 <= low < 2^15 and 0 <= high <=
// 128, so that 16-bit multiply-adds of pixel pairs (one instruction for two taps) give the exact 32-bit sum:
//   sum k p = 2^15 sum high p + sum low p.
// No sum overflows: weights add up to 2^22 and pixels are below 2^8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// Rows that the horizontal kernel takes at once.
inline constexpr int kRowGroup = 4;
/// Bytes that the kernels may read behind a row's last pixel, and write behind an output row's.
inline constexpr size_t kRowPadding = 64;

/// Two taps' weights: the low parts and the high parts of weights t and t + 1, as pairs of 16 bits.
struct WeightPair {
  uint32_t low = 0;
  uint32_t high = 0;
};
inline WeightPair weight_pair(int32_t first, int32_t second) {
  const auto pack = [](int32_t a, int32_t b) { return static_cast<uint32_t>(a | (b << 16)); };
  return {pack(first & 0x7fff, second & 0x7fff), pack(first >> 15, second >> 15)};
}

/// Where each output pixel of a row begins to read, and its weights.
struct HorizontalTable {
  const int32_t* offsets = nullptr;     // [count, rounded up to 4], in bytes
  const WeightPair* weights = nullptr;  // [count, rounded up to 4][pairs]
  int pairs = 0;                        // 1, or even
  int count = 0;
};

struct ResizeKernels {
  /// Resizes kRowGroup rows of 3 or 4 channels; input rows may repeat, and so may output rows that nobody
  /// wants. Reads up to kRowPadding bytes behind a row, writes nothing behind an output row.
  void (*horizontal)(const uint8_t* const* rows, int channels, const HorizontalTable& table,
                     uint8_t* const* out);
  /// out[i] = the weighted sum of rows[0..2 pairs)[i], for i < size; reads and writes nothing behind.
  void (*vertical)(const uint8_t* const* rows, const WeightPair* weights, int pairs, size_t size,
                   uint8_t* out);
  /// out[4 i + r] = rows[r][i], for i < size, and back. Grey rows, four at a time, are resized as 4 channels.
  void (*interleave)(const uint8_t* const* rows, size_t size, uint8_t* out);
  void (*deinterleave)(const uint8_t* in, size_t size, uint8_t* const* rows);
};

/// The kernels of the best instruction set that this CPU has.
ResizeKernels resize_kernels();

}  // namespace dlpipe::augment
