// The inner loops of ops that look at a small neighbourhood of each pixel, and the margins that these need. As pixel_kernels.h:
// the same bits on every instruction set. Internal to augment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// How pixels beyond the border are seen: the border's own again, or mirrored without repeating it.
enum class Border { kReplicate, kReflect };
/// The picture's `window` with `reach` more pixels on every side; `in` holds `region` of a picture of `width` x
/// `height`, whose pixels beyond its border follow `border`. Lies in `work`.
ConstImageView with_margin(const ConstImageView& in, const Region& region, const Region& window, int width,
                           int height, int reach_x, int reach_y, Border border, std::vector<std::byte>& work);

/// out = (sum of weights[dy][dx] in[y + dy - 1][x + dx - 1]) / divisor of a picture with margins of 1, halves rounded up,
/// clipped. Weights are below 2^15, their absolute values sum to less than 2^15.
void convolve3x3(const ConstImageView& with_margins, const std::array<int, 9>& weights, int divisor,
                 const ImageView& out);

/// The mean of a picture with margins at places relative to each output pixel (0, 0 being the margins' first), halves
/// rounded up; at most 256 of them.
struct TapOffset {
  int x = 0;
  int y = 0;
};
void average_taps(const ConstImageView& with_margins, std::span<const TapOffset> taps, const ImageView& out);

/// The medians of squares of 3 or 5 around each pixel of a picture with margins. False where there is no such kernel: for other
/// sides, and rows shorter than a vector.
bool median_small(const ConstImageView& with_margins, int side, const ImageView& out);

}  // namespace dlpipe::augment
