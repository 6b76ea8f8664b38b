// Test-time augmentation: a model's logits averaged over views of the same pictures. Part of the model's
// preprocessing: checkpoints name it, and eval and predict do the same.
#pragma once

#include <cstdint>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/config/enumerated.h"

namespace dlpipe::run {

/// What a model sees of an extent of a picture, in pixels: all of it, or of crops 7/8.
int64_t seen_extent(int64_t extent, Views views);

/// Logits f32 [N,K] of pixels [N,H,W,C], without a blocked layout and without history. The calling thread, and the engine's for
/// the work.
engine::Tensor view_logits(engine::Module& model, const engine::Tensor& pixels, Views views);

}  // namespace dlpipe::run
