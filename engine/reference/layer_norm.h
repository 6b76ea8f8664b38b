// Rows of layer_norm and add_layer_norm in double, one after another.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine::reference {

/// As ops/layer_norm.h says.
void normalize_rows(const Tensor& x, const Tensor& branch, const Tensor& sum, const Tensor& gamma,
                    const Tensor& beta, double epsilon, const Tensor& y, const Tensor& means,
                    const Tensor& inverses);
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta);

}  // namespace dlpipe::engine::reference
