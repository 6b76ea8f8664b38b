// The inner loops of blurs. As pixel_kernels.h: the same bits on every instruction set. Internal to augment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// A window of a picture, and what there is of the pixels around it.
struct PicturePart {
  ConstImageView in;  // holds `region`
  Region region;
  Region window;
  int width = 0;  // the picture's
  int height = 0;
};

/// Separable convolution of the window, columns first, with an odd number of weights, the same for both directions; the picture
/// is mirrored at its border without repeating it. Weights (blur_weights.h) have 16 bits after the point and sum to less than
/// 2^16. `work` holds rows between the passes.
void convolve(const PicturePart& part, std::span<const uint16_t> weights, const ImageView& out,
              std::vector<std::byte>& work);

}  // namespace dlpipe::augment
