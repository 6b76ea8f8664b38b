// Rows of layer_norm and add_layer_norm on CUDA: every tensor f32, bf16 or f16 by itself, memory passed once
// forward and once backward. Work goes into the calling thread's stream.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// As ops/layer_norm.h says.
void normalize_rows(const Tensor& x, const Tensor& branch, const Tensor& sum, const Tensor& gamma,
                    const Tensor& beta, double epsilon, const Tensor& y, const Tensor& means,
                    const Tensor& inverses);
void normalize_rows_gradient(const Tensor& x, const Tensor& gamma, const Tensor& means,
                             const Tensor& inverses, const Tensor& grad_x, const Tensor& grad_y,
                             std::span<const Tensor> to_x, const Tensor& to_gamma, const Tensor& to_beta);

/// Whether all inputs and y are f32, bf16 or f16, and rows not longer than 8192.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs);

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
