// Copies pixels unchanged: whole images, mirrored, rotated, shifted into a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dlpipe/image.h"

namespace dlpipe::augment {

/// The index in 0..size - 1 for `i` in an image mirrored at its borders without repeating them: -1 -> 1, size -> size - 2.
inline int reflected(int i, int size) {
  if (size == 1) return 0;
  while (i < 0 || i >= size) i = i < 0 ? -i : 2 * (size - 1) - i;
  return i;
}

/// Copies `in` to `out` (equal sizes and channels, no overlap), left and right swapped if `mirror`.
void copy_image(const ConstImageView& in, const ImageView& out, bool mirror);

/// Rotates and mirrors a whole image: like orient_image of dlpipe/image.h, but faster for three channels.
void turn_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen);

/// The alpha channel of images with 2 or 4 channels, of `out`'s size from (x, y) of `in` on; does nothing for others.
void copy_alpha(const ConstImageView& in, int x, int y, const ImageView& out);

/// One pixel's value, a byte per channel.
using Pixel = std::array<uint8_t, 4>;
/// Sets the part of `out` inside `region` (clipped to `out`).
void fill_region(const ImageView& out, const Region& region, const Pixel& value);

/// Places `in` into `out` with its top left corner at (x, y), which may be outside; the rest is set to `value`. The whole
/// result is mirrored if `mirror`.
void place_image(const ConstImageView& in, int x, int y, const Pixel& value, const ImageView& out,
                 bool mirror);

// The inner loops (copy_kernels.cpp), in Highway, chosen at run time for the CPU. Pure functions.

/// `height` rows of `width` RGB pixels, left and right swapped. Rows must not overlap; nothing outside them is touched.
using MirrorRgb = void (*)(const uint8_t* from, ptrdiff_t from_stride, uint8_t* to, ptrdiff_t to_stride,
                           int width, int height);
MirrorRgb mirror_rgb();

/// `height` rows of `width` RGB pixels become `width` rows of `height`: the pixel in column x of row y goes to column y of row
/// x. A negative from_stride reads rows from the last one on; `reversed` counts columns from the right. Nothing outside of the
/// rows is touched.
using TransposeRgb = void (*)(const uint8_t* from, ptrdiff_t from_stride, bool reversed, uint8_t* to,
                              ptrdiff_t to_stride, int width, int height);
TransposeRgb transpose_rgb();

}  // namespace dlpipe::augment
