// Rows of layer_norm and add_layer_norm: f32 or bf16 at every place, widened and narrowed a row at a time in
// the first-level cache, so that memory is passed once forward and once backward.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine::cpu {

/// As ops/layer_norm.h says.
void normalize_rows(const Tensor& x, const Tensor& branch, const Tensor& sum, const Tensor& gamma,
                    const Tensor& beta, double epsilon, const Tensor& y, const Tensor& means,
                    const Tensor& inverses);
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta);

/// Whether all inputs and y are f32 or bf16.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs);

}  // namespace dlpipe::engine::cpu
