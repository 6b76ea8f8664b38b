// Rows of layer_norm and add_layer_norm in double, one after another.
#pragma once

#include "dlpipe/engine/op.h"

namespace dlpipe::engine::reference {

/// y of x, gamma and beta, and each row's mean and 1/sqrt(variance + epsilon).
void normalize_rows(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, const Tensor& y,
                    const Tensor& means, const Tensor& inverses);

/// Gradients of a loss that sees the rows `x` (`grad_x`, may be undefined) and their norms (`grad_y`,
/// likewise). Each of `to_x` and of gamma's and beta's may be undefined: not wanted.
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta);

}  // namespace dlpipe::engine::reference
