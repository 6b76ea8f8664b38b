// Maps from what a model sees back to the image: boxes in the image's pixels, and masks in their own size.
//
// Pure functions. Cost of count_whole_mask: an interpolation of all classes for each pixel of the mask, on the engine's threads.
#pragma once

#include <array>

#include "augment/moving.h"
#include "dlpipe/augment.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/tensor.h"
#include "run/task/task.h"

namespace dlpipe::run {

/// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
struct Affine {
  std::array<double, 6> m = {1, 0, 0, 0, 1, 0};

  augment::Place place(double x, double y) const {
    return {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  }
};

/// The mapping between what the model sees and the upright image.
struct SeenMap {
  Affine to_image = {}, to_seen = {};
  augment::ImageSize whole = {};  // of the image

  /// The rectangle around the box's corners, in the image.
  std::array<double, 4> box(const std::array<float, 4>& seen) const;
};

/// The mapping of a chain that moves an image by crops, resizes, flips, rotations and the like; kUnsupported for others.
Result<SeenMap> seen_map(const augment::ChainPlan& plan);

/// Writes to `out` the logits [K] at a place in what the model saw, interpolated bilinearly from those of its pixels, `logits`
/// [height, width, K]. Returns false, and writes nothing, for a place that the model did not see.
bool logits_at(const augment::Place& place, const float* logits, int64_t height, int64_t width,
               int64_t classes, float* out);

/// Adds the pixels of `mask`, which has the size of the image, to `tally`. Each gets the logits at its middle, interpolated
/// bilinearly from those of the seen pixels, `logits` f32 [H,W,K] on the host. For a chain that only resizes, these are the
/// logits of PyTorch's F.interpolate(align_corners=False). Pixels that the model did not see, or that are kIgnored, do not count.
void count_whole_mask(const engine::Tensor& logits, const SeenMap& map, const ConstImageView& mask,
                      Tally& tally);

}  // namespace dlpipe::run
