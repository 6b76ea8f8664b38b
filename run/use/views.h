// Test-time augmentation: a model's logits averaged over views of the same pictures. Part of the model's
// preprocessing: checkpoints name it, and eval and predict do the same.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

enum class Views : uint8_t {
  kOne,   // the picture
  kFlip,  // the picture and its mirror image
  /// Half the weight on the picture, a quarter each on it moved by a pixel up and left, and down and right
  /// (edges reflected); of each also the mirror image. Six views.
  kFlipTranslate,
};
/// "none", "flip" or "flip_translate"; kMisuse suggests.
Result<Views> parse_views(const std::string& name);

/// Logits f32 [N,K] of pixels [N,H,W,C], without a blocked layout. The calling thread, and the engine's for
/// the work.
engine::Tensor view_logits(engine::Module& model, const engine::Tensor& pixels, Views views);

}  // namespace dlpipe::run
