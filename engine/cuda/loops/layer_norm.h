// Rows of layer_norm and add_layer_norm on CUDA: every tensor f32, bf16 or f16 by itself, memory passed once
// forward and once backward. Work goes into the calling thread's stream.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/grid/grid.h"
#include "dlpipe/engine/ops/layer_norm.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// As ops/layer_norm.h says.
void normalize_rows(const RowNorms& norms);
void normalize_rows_gradient(const RowNormGradients& gradients);

/// Whether all inputs and y are f32, bf16 or f16, and rows not longer than 8192.
bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs);

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
