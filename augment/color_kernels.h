// The inner loops of ops on values and colours, in Highway, chosen at run time for the CPU, with the same bits on every
// instruction set. Internal to augment; pure functions, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/image.h"

namespace dlpipe::augment {

using LookupTable = std::array<uint8_t, 256>;
struct LookupTables {
  std::array<LookupTable, 4> of;  // [channel]
};
void look_up(const LookupTables& tables, const ConstImageView& in, const ImageView& out);

/// out[c] = in[source[c]].
void permute_channels(const std::array<int, 4>& source, const ConstImageView& in, const ImageView& out);
/// Every channel except a fourth becomes luma.
void to_luma(const ConstImageView& in, const ImageView& out);
/// Values from `threshold` (0..256) on become 255 - v; then only the bits of `mask` are kept.
void fold_values(int mask, int threshold, const ConstImageView& in, const ImageView& out);

using Histogram = std::array<uint32_t, 256>;
/// How often each value occurs, per channel.
std::array<Histogram, 4> histograms(const ConstImageView& in);

/// Pillow's L of a pixel: (19595 r + 38470 g + 7471 b + 2^15) / 2^16.
inline uint8_t luma(int r, int g, int b) {
  return static_cast<uint8_t>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}
/// The mean of luma over the image (of the values themselves if it is grey), times the number of its pixels.
uint64_t luma_sum(const ConstImageView& in);

/// Pillow's blend of two values: from + alpha (to - from), truncated to whole numbers and clipped to 0..255.
inline uint8_t blend(int from, int to, float alpha) {
  const float value = static_cast<float>(from) + alpha * static_cast<float>(to - from);
  if (value <= 0) return 0;
  return value >= 255 ? 255 : static_cast<uint8_t>(value);
}
/// out = blend(luma of the pixel, in, alpha); a fourth channel is unchanged.
void blend_luma(const ConstImageView& in, float alpha, const ImageView& out);
/// out = blend(other, in, alpha), value by value. `other` may be `out`.
void blend_images(const ConstImageView& other, const ConstImageView& in, float alpha, const ImageView& out);

/// Pillow's 8-bit HSV and back, `shift` (0..255) added to the hue modulo 256. `in` and `out` have the same size and
/// channels and do not overlap.
void turn_hue(int shift, const ConstImageView& in, const ImageView& out);

// Images in 8-bit CIE Lab as in OpenCV: sRGB, white D65; L is 255 / 100 of CIE's, a and b are 128 more than CIE's. Whole
// numbers and tables throughout, as in OpenCV: the same values as its RGB2LAB and LAB2RGB for every colour, and the same on
// every instruction set. Internal to augment; any thread.

/// Three planes of one image, rows of `stride` values.
struct LabPlanes {
  uint8_t* of[3];  // L, a, b
  int stride;
};

/// Converts the first three channels.
void to_lab(const ConstImageView& in, const LabPlanes& out);
/// Converts one row back; a fourth channel of `to` is unchanged.
void row_from_lab(const uint8_t* const lab[3], int width, int channels, uint8_t* to);

/// How a row of pixels is looked up in the tables of two adjacent tiles: [tile][256] floats.
struct TileColumns {
  const int* left;     // [width] where the left tile's table begins
  const int* right;    // [width]
  const float* share;  // [width] of the right tile
};
/// to[x] = from[x]'s table values, interpolated between the tiles around it: `above` and `below` are the tables of two rows of
/// tiles, `share` is the lower one's. Rounded to the nearest, halves to even.
void between_tiles(const uint8_t* from, int width, const TileColumns& columns, const float* above,
                   const float* below, float share, uint8_t* to);

}  // namespace dlpipe::augment
