// Rows of layer_norm and add_layer_norm: f32 or bf16 at every place, widened and narrowed a row at a time in
// the first-level cache, so that memory is passed once forward and once backward.
#pragma once

#include <span>

#include "dlpipe/engine/op.h"

namespace dlpipe::engine::cpu {

/// y of the rows of x, or of x + branch (undefined: none), which goes to `sum`; each row's mean and
/// 1/sqrt(variance + epsilon).
void normalize_rows(const Tensor& x, const Tensor& branch, const Tensor& sum, const Tensor& gamma,
                    const Tensor& beta, double epsilon, const Tensor& y, const Tensor& means,
                    const Tensor& inverses);

/// Gradients of a loss that sees the rows `x` (`grad_x`, may be undefined) and their norms (`grad_y`,
/// likewise): into each of `to_x`, at most two, and of gamma and beta. Undefined ones are not wanted.
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta);

/// Whether all inputs and y are f32 or bf16.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs);

}  // namespace dlpipe::engine::cpu
