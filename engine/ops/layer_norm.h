// The attributes and the shape rule of layer_norm and add_layer_norm, shared by their records and their
// kernels on every backend.
#pragma once

#include <string_view>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

struct LayerNormAttrs {
  double epsilon = 1e-5;
  DType output = DType::kF32;  // of y: f32 or a low dtype; f64 where x is
};

/// Specs of y and of each row's mean and 1/sqrt(variance + epsilon), for rows like x and parameters [C],
/// which are f32, or f64 where x is.
std::vector<TensorSpec> layer_norm_outputs(std::string_view op, const TensorSpec& x, const TensorSpec& gamma,
                                           const TensorSpec& beta, const LayerNormAttrs& attrs);

/// Rows of a sequence, many short ones, and, for those that read sixteen bytes at a time, an odd length.
std::vector<OpSample> layer_norm_samples(size_t inputs_like_x);

// What a backend gives is two functions, from which both ops' kernels are made:
//
//   normalize_rows(x, branch, sum, gamma, beta, epsilon, y, means, inverses)
//     y of the rows of x, or of x + branch (undefined: none), which goes to `sum`, and each row's mean and
//     1/sqrt(variance + epsilon)
//   normalize_rows_gradient(x, gamma, means, inverses, grad_x, grad_y, to_x, to_gamma, to_beta)
//     gradients of a loss that sees the rows `x` (`grad_x`, may be undefined) and their norms (`grad_y`,
//     likewise): into each of `to_x`, at most two, and of gamma and beta. Undefined ones are not wanted.

using SupportsKernel = bool (*)(std::span<const TensorSpec> inputs, const Attrs& attrs);

template <auto kNormalize, auto kGradient>
constexpr Kernels layer_norm_kernels(SupportsKernel supports) {
  return {
      .forward =
          [](const ForwardArgs& args) {
            kNormalize(args.inputs[0], Tensor(), Tensor(), args.inputs[1], args.inputs[2],
                       args.attrs.as<LayerNormAttrs>().epsilon, args.outputs[0], args.outputs[1],
                       args.outputs[2]);
          },
      .backward =
          [](const BackwardArgs& args) {
            kGradient(args.inputs[0], args.inputs[1], args.outputs[1], args.outputs[2], Tensor(),
                      args.grad_outputs[0], args.grad_inputs.first(1), args.grad_inputs[1],
                      args.grad_inputs[2]);
          },
      .supports = supports,
  };
}

/// Where backward computes the gradients of x and of the branch, which are the same number: in one dtype they
/// are one tensor, written once, and `grads` gets it twice.
std::span<const Tensor> residual_gradients(std::span<Tensor> grads);

template <auto kNormalize, auto kGradient>
constexpr Kernels add_layer_norm_kernels(SupportsKernel supports) {
  return {
      .forward =
          [](const ForwardArgs& args) {
            kNormalize(args.inputs[0], args.inputs[1], args.outputs[0], args.inputs[2], args.inputs[3],
                       args.attrs.as<LayerNormAttrs>().epsilon, args.outputs[1], args.outputs[2],
                       args.outputs[3]);
          },
      .backward =
          [](const BackwardArgs& args) {
            kGradient(args.outputs[0], args.inputs[2], args.outputs[2], args.outputs[3], args.grad_outputs[0],
                      args.grad_outputs[1], residual_gradients(args.grad_inputs), args.grad_inputs[2],
                      args.grad_inputs[3]);
          },
      .supports = supports,
  };
}

}  // namespace dlpipe::engine
