// Moving pixels unchanged: whole images, mirrored, shifted into a frame.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// The place in 0..size - 1 that `i` shows in a picture mirrored at its borders without repeating them: -1 -> 1, size ->
/// size - 2.
inline int reflected(int i, int size) {
  if (size == 1) return 0;
  while (i < 0 || i >= size) i = i < 0 ? -i : 2 * (size - 1) - i;
  return i;
}

/// Copies `in` to `out` (equal sizes and channels, no overlap), left and right swapped if `mirror`.
void copy_image(const ConstImageView& in, const ImageView& out, bool mirror);

/// Turns and mirrors a whole picture: orient_image of base/image.h, and faster where there are three channels.
void turn_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen);

/// The alpha channel of pictures with 2 or 4 channels, of `out`'s size from (x, y) of `in` on; others have none.
void copy_alpha(const ConstImageView& in, int x, int y, const ImageView& out);

/// One pixel's value, a byte per channel.
using Pixel = std::array<uint8_t, 4>;
/// Sets the part of `out` inside `region` (clipped to `out`).
void fill_region(const ImageView& out, const Region& region, const Pixel& value);

/// Lays `in` into `out` with its top left corner at (x, y), which may lie outside; what `in` doesn't cover is
/// set to `value`. The whole result is mirrored if `mirror`.
void place_image(const ConstImageView& in, int x, int y, const Pixel& value, const ImageView& out,
                 bool mirror);

}  // namespace dlpipe::augment
