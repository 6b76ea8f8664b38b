// A batch as tensors: pixels prepared for the model, labels and weights copied, so that the slot can go back
// at once.
#pragma once

#include "dlpipe/base/batch.h"
#include "dlpipe/engine/tensor.h"

namespace dlpipe::run {

struct BatchInput {
  engine::Tensor pixels;  // floating [N,H,W,C], prepared as batch.prep says
  engine::Tensor labels;  // i64 [N]
  engine::Tensor weight;  // f32 [N]; 0: the row doesn't count
  double total_weight = 0;
};

/// Throws Error (kUnsupported) when the batch has no image field (u8 [H,W,C]) or no label field (i64 []).
BatchInput batch_input(const Batch& batch);

/// The image and label fields of a schema; null where there is none.
const FieldSpec* image_field(std::span<const FieldSpec> schema);
const FieldSpec* label_field(std::span<const FieldSpec> schema);

}  // namespace dlpipe::run
