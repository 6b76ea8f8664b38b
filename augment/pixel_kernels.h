// The inner loops of ops that work value by value or pixel by pixel. Plain loops, compiled once per instruction set and
// chosen at run time; integers, or floats without contraction, so that all give the same bits. Internal to augment. `in`
// and `out` have the same size and channels and do not overlap.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

using LookupTable = std::array<uint8_t, 256>;
struct LookupTables {
  std::array<LookupTable, 4> of;  // [channel]
};
void look_up(const LookupTables& tables, const ConstImageView& in, const ImageView& out);

/// out[c] = in[source[c]].
void permute_channels(const std::array<int, 4>& source, const ConstImageView& in, const ImageView& out);
/// Every channel but a fourth becomes luma.
void to_luma(const ConstImageView& in, const ImageView& out);
/// Values from `threshold` (0..256) on become 255 - v; then only the bits of `mask` stay.
void fold_values(int mask, int threshold, const ConstImageView& in, const ImageView& out);

using Histogram = std::array<uint32_t, 256>;
/// How often each value occurs, per channel.
std::array<Histogram, 4> histograms(const ConstImageView& in);

/// Pillow's L of a pixel: (19595 r + 38470 g + 7471 b + 2^15) / 2^16.
inline uint8_t luma(int r, int g, int b) {
  return static_cast<uint8_t>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}
/// The mean of luma over the picture (of the values themselves where it is grey), times the number of its pixels.
uint64_t luma_sum(const ConstImageView& in);

/// Pillow's blend of two values: from + alpha (to - from), cut off to whole numbers in 0..255.
inline uint8_t blend(int from, int to, float alpha) {
  const float value = static_cast<float>(from) + alpha * static_cast<float>(to - from);
  if (value <= 0) return 0;
  return value >= 255 ? 255 : static_cast<uint8_t>(value);
}
/// out = blend(luma of the pixel, in, alpha); of four channels the last stays.
void blend_luma(const ConstImageView& in, float alpha, const ImageView& out);
/// out = blend(other, in, alpha), value by value. `other` may be `out`.
void blend_images(const ConstImageView& other, const ConstImageView& in, float alpha, const ImageView& out);

}  // namespace dlpipe::augment
