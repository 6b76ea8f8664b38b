// Row conversions between the colour models of stored images. The formulas are those of Pillow's `Image.convert`, so that an
// image decoded here equals Pillow's. Pure functions; rows must not overlap.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

/// Repeats each of `count` grey values three times.
void grey_to_rgb_row(const uint8_t* grey, uint8_t* rgb, int count);
/// ITU-R 601-2 luma in 16-bit fixed point, rounded: (19595 R + 38470 G + 7471 B + 2^15) >> 16.
void rgb_to_grey_row(const uint8_t* rgb, uint8_t* grey, int count);
/// CMYK as JPEG files store it (Adobe's convention: 255 is no ink), to RGB. `cmyk` and `rgb` may start at the
/// same address.
void inverted_cmyk_to_rgb_row(const uint8_t* cmyk, uint8_t* rgb, int count);
/// Blends grey or RGB pixels with alpha (2 or 4 channels) over `background`, rounding as Pillow's paste does; the result has
/// `to_channels` (1: grey).
void composite_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count,
                   const std::array<uint8_t, 3>& background);
/// From `from_channels` to `to_channels` (each 1 or 3).
void convert_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count);

/// kMisuse unless an encoder can store the image: it has pixels with 1 or 3 channels.
Status check_encodable(const ConstImageView& image);

}  // namespace dlpipe::data
