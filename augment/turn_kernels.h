// Rows and columns of RGB pictures swapped, in Highway, chosen at run time for the CPU: what quarter turns are made with. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// `height` rows of `width` RGB pixels become `width` rows of `height`: the pixel in column x of row y goes to column y of row
/// x. A negative from_stride takes rows from the last one on; `reversed` counts columns from the right. Nothing outside of the
/// rows is touched.
using TransposeRgb = void (*)(const uint8_t* from, ptrdiff_t from_stride, bool reversed, uint8_t* to,
                              ptrdiff_t to_stride, int width, int height);
TransposeRgb transpose_rgb();

}  // namespace dlpipe::augment
