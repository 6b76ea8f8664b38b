// Pictures in CIE Lab as OpenCV has them in 8 bits: sRGB, white D65; L is 255 / 100 of CIE's, a and b are 128 more than CIE's.
// Whole numbers and tables throughout, as in OpenCV: the same values as its RGB2LAB and LAB2RGB for every colour, and the
// same on every instruction set. Internal to augment; any thread.
#pragma once

#include <cstdint>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// Three planes of one picture, rows of `stride` values.
struct LabPlanes {
  uint8_t* of[3];  // L, a, b
  int stride;
};

/// Of the first three channels.
void to_lab(const ConstImageView& in, const LabPlanes& out);
/// One row back; a fourth channel of `to` stays as it is.
void row_from_lab(const uint8_t* const lab[3], int width, int channels, uint8_t* to);

/// How a row of pixels is looked up in the tables of two tiles beside each other: [tile][256] floats.
struct TileColumns {
  const int* left;     // [width] where the left tile's table begins
  const int* right;    // [width]
  const float* share;  // [width] of the right tile
};
/// to[x] = table values of from[x], between those of the tiles around it: `above` and `below` are the tables of two rows of
/// tiles, `share` is the lower one's. Rounded to the nearest, halves to even.
void between_tiles(const uint8_t* from, int width, const TileColumns& columns, const float* above,
                   const float* below, float share, uint8_t* to);

}  // namespace dlpipe::augment
