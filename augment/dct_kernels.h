// What quantizing the discrete cosine transform of a picture's blocks leaves of them: forwards, to the nearest multiples,
// backwards, by 13-bit constants (Loeffler, Ligtenberg and Moschytz, 1989) and whole numbers, the same on every instruction
// set. Internal to augment; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe::augment {

/// One component: rows of `stride` values, blocks of 8 x 8.
struct BlockPlane {
  uint8_t* values;
  int stride;  // a multiple of 8
  int height;  // likewise
  uint8_t* row(int y) const { return values + ptrdiff_t{y} * stride; }
};

/// `divisors` are 64 whole numbers, [row][column].
void quantize_blocks(const BlockPlane& plane, const float* divisors);

}  // namespace dlpipe::augment
