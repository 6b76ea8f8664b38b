// From what a model sees back to the image: where the chain moved it, boxes in the image's pixels, and masks in their own size.
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

/// Between what the model sees and the image, upright.
struct SeenMap {
  Affine to_image = {}, to_seen = {};
  augment::ImageSize whole = {};  // of the image

  /// The rectangle around the box's corners, in the image.
  std::array<double, 4> box(const std::array<float, 4>& seen) const;
};

/// Of a chain that moves an image by crops, resizes, flips, turns and the like; kUnsupported of others.
Result<SeenMap> seen_map(const augment::ChainPlan& plan);

/// The logits [K] at a place of what the model saw, interpolated bilinearly between those of its pixels, `logits` [height, width, K].
/// Returns false, and writes nothing, for a place that it did not see.
bool logits_at(const augment::Place& place, const float* logits, int64_t height, int64_t width,
               int64_t classes, float* out);

/// Adds the pixels of `mask`, which has the size of the image, to `tally`. Each has the logits at its middle, interpolated bilinearly
/// between those of the seen pixels, `logits` f32 [H,W,K] on the host: of a chain that only resizes, those of PyTorch's
/// F.interpolate(align_corners=False). Pixels that the model did not see do not count, nor does TargetSpec::kIgnored.
void count_whole_mask(const engine::Tensor& logits, const SeenMap& map, const ConstImageView& mask,
                      Tally& tally);

}  // namespace dlpipe::run
