// What still has to happen to a batch of bytes before it is a training input. Plain data: augment's last ops
// and pipeline's mixing fill it, engine/ops/batch_prep executes it in one pass; neither includes the other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/image.h"

namespace dlpipe {

/// Mixing of one sample with another of the same batch (mixup: lambda < 1 and an empty box; cutmix: box).
struct SampleMix {
  int32_t partner = -1;  // index in the batch; -1: not mixed
  float lambda = 1.0f;   // weight of the sample's own pixels and label
  Region box;            // cutmix: pixels of the partner inside it
};

struct BatchPrep {
  static constexpr int kMaxChannels = 4;
  /// output[n,y,x,c] = scale[c] * input[n,y,x,c] + bias[c], in f32, then rounded to dtype.
  std::array<float, kMaxChannels> scale = {1, 1, 1, 1};
  std::array<float, kMaxChannels> bias = {0, 0, 0, 0};
  DType dtype = DType::kF32;
  float label_smoothing = 0.0f;
  std::vector<SampleMix> mix;  // empty, or one per sample
};

}  // namespace dlpipe
