// Row conversions between the colour models that images are stored in. The formulas are Pillow's
// `Image.convert`, so that a picture decoded here equals the one Python users know. Pure functions; rows must
// not overlap.
#pragma once

#include <array>
#include <cstdint>

namespace dlpipe::data {

/// Repeats each of `count` grey values three times.
void grey_to_rgb_row(const uint8_t* grey, uint8_t* rgb, int count);
/// ITU-R 601-2 luma in 16-bit fixed point, rounded: (19595 R + 38470 G + 7471 B + 2^15) >> 16.
void rgb_to_grey_row(const uint8_t* rgb, uint8_t* grey, int count);
/// CMYK as JPEG files store it (Adobe's convention: 255 is no ink), to RGB. `cmyk` and `rgb` may start at the
/// same address.
void inverted_cmyk_to_rgb_row(const uint8_t* cmyk, uint8_t* rgb, int count);
/// Pixels of grey or RGB with an alpha behind them (2 or 4 channels) over `background`, rounded as Pillow's paste does;
/// grey (1) where `to_channels` is that.
void composite_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count,
                   const std::array<uint8_t, 3>& background);
/// From `from_channels` to `to_channels` (each 1 or 3).
void convert_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count);

}  // namespace dlpipe::data
