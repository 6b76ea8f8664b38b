// The attributes and the shape rule of layer_norm and add_layer_norm, shared by their records and their
// kernels on every backend.
#pragma once

#include <string_view>

#include "dlpipe/engine/op.h"

namespace dlpipe::engine {

struct LayerNormAttrs {
  double epsilon = 1e-5;
  DType output = DType::kF32;  // of y: f32 or a low dtype; f64 where x is
};

/// Specs of y and of each row's mean and 1/sqrt(variance + epsilon), for rows like x and parameters [C],
/// which are f32, or f64 where x is.
std::vector<TensorSpec> layer_norm_outputs(std::string_view op, const TensorSpec& x, const TensorSpec& gamma,
                                           const TensorSpec& beta, const LayerNormAttrs& attrs);

/// Where add_layer_norm's backward computes the gradients of x and of the branch, which are the same number:
/// in one dtype they are one tensor, written once, and `grads` gets it twice.
std::span<const Tensor> residual_gradients(std::span<Tensor> grads);

/// Rows of a sequence, many short ones, and, for those that read sixteen bytes at a time, an odd length.
std::vector<OpSample> layer_norm_samples(size_t inputs_like_x);

}  // namespace dlpipe::engine
