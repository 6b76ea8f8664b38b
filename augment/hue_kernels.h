// The inner loop of hue, compiled once per instruction set and chosen at run time; all give the same bits. Internal to
// augment.
#pragma once

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// Pillow's 8-bit HSV and back, `shift` (0..255) added to the hue modulo 256. `in` and `out` have the same size and
/// channels and do not overlap.
void turn_hue(int shift, const ConstImageView& in, const ImageView& out);

}  // namespace dlpipe::augment
