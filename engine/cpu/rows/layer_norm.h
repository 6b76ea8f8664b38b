// Rows of layer_norm and add_layer_norm: f32 or bf16 at every place, widened and narrowed a row at a time in
// the first-level cache, so that memory is passed once forward and once backward.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine::cpu {

/// As ops/layer_norm.h says.
void normalize_rows(const RowNorms& norms);
void normalize_rows_gradient(const RowNormGradients& gradients);

/// Whether all inputs and y are f32 or bf16.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs);

}  // namespace dlpipe::engine::cpu
