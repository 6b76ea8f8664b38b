// Mirrored rows in Highway, chosen at run time for the CPU: what small pictures are flipped with. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// `height` rows of `width` RGB pixels, left and right swapped. Rows don't overlap; nothing outside them is
/// touched.
using MirrorRgb = void (*)(const uint8_t* from, ptrdiff_t from_stride, uint8_t* to, ptrdiff_t to_stride,
                           int width, int height);
MirrorRgb mirror_rgb();

}  // namespace dlpipe::augment
