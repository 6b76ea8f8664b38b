// The attributes and the shape rule of layer_norm and add_layer_norm, shared by their records and their
// kernels on every backend.
#pragma once

#include <string_view>

#include "dlpipe/op.h"

namespace dlpipe::engine {

struct LayerNormAttrs {
  double epsilon = 1e-5;
  DType output = DType::kF32;  // of y: f32 or a low dtype; f64 if x is f64

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("epsilon", self.epsilon);
    visit("output", self.output);
  }
};

/// Specs of y and of each row's mean and 1/sqrt(variance + epsilon), for rows like x and parameters [C],
/// which are f32, or f64 if x is f64.
std::vector<TensorSpec> layer_norm_outputs(std::string_view op, const TensorSpec& x, const TensorSpec& gamma,
                                           const TensorSpec& beta, const LayerNormAttrs& attrs);

/// Samples: rows of a sequence, many short rows, and an odd length, for kernels that read sixteen bytes at a time.
std::vector<OpSample> layer_norm_samples(size_t inputs_like_x);

/// The tensors of forward. Outputs are allocated.
struct RowNorms {
  Tensor x;
  Tensor branch;  // undefined: none
  Tensor sum;     // output: x + branch, if there is one
  Tensor gamma;
  Tensor beta;
  double epsilon;
  Tensor y;         // output: the normalised rows of x, or of the sum
  Tensor means;     // output: each row's mean
  Tensor inverses;  // output: each row's 1/sqrt(variance + epsilon)
};

/// The tensors of backward, for a loss that depends on the rows `x` and on the normalised rows. Undefined targets are not needed.
struct RowNormGradients {
  Tensor x;
  Tensor gamma;
  Tensor means;
  Tensor inverses;
  Tensor grad_x;                 // of the rows themselves; undefined: none
  Tensor grad_y;                 // of the normalised rows; undefined: none
  std::span<const Tensor> to_x;  // one or two tensors; each receives the gradient of x
  Tensor to_gamma;
  Tensor to_beta;
};

/// Builds both ops' kernels from a backend's two functions.
template <auto kNormalize, auto kGradient>
concept NormalizesRows = requires(const RowNorms& norms, const RowNormGradients& gradients) {
  kNormalize(norms);
  kGradient(gradients);
};

using SupportsKernel = bool (*)(std::span<const TensorSpec> inputs, const Attrs& attrs);

template <auto kNormalize, auto kGradient>
requires NormalizesRows<kNormalize, kGradient>
constexpr Kernels layer_norm_kernels(SupportsKernel supports) {
  return {
      .forward =
          [](const ForwardArgs& args) {
            kNormalize({.x = args.inputs[0],
                        .branch = {},
                        .sum = {},
                        .gamma = args.inputs[1],
                        .beta = args.inputs[2],
                        .epsilon = args.attrs.as<LayerNormAttrs>().epsilon,
                        .y = args.outputs[0],
                        .means = args.outputs[1],
                        .inverses = args.outputs[2]});
          },
      .backward =
          [](const BackwardArgs& args) {
            kGradient({.x = args.inputs[0],
                       .gamma = args.inputs[1],
                       .means = args.outputs[1],
                       .inverses = args.outputs[2],
                       .grad_x = {},
                       .grad_y = args.grad_outputs[0],
                       .to_x = args.grad_inputs.first(1),
                       .to_gamma = args.grad_inputs[1],
                       .to_beta = args.grad_inputs[2]});
          },
      .supports = supports,
  };
}

/// The tensors that backward writes the gradients of x and of the branch to. Both have the same values, so if their dtypes are
/// equal they are one tensor, which is written once and is in `grads` twice.
std::span<const Tensor> residual_gradients(std::span<Tensor> grads);

template <auto kNormalize, auto kGradient>
requires NormalizesRows<kNormalize, kGradient>
constexpr Kernels add_layer_norm_kernels(SupportsKernel supports) {
  return {
      .forward =
          [](const ForwardArgs& args) {
            kNormalize({.x = args.inputs[0],
                        .branch = args.inputs[1],
                        .sum = args.outputs[0],
                        .gamma = args.inputs[2],
                        .beta = args.inputs[3],
                        .epsilon = args.attrs.as<LayerNormAttrs>().epsilon,
                        .y = args.outputs[1],
                        .means = args.outputs[2],
                        .inverses = args.outputs[3]});
          },
      .backward =
          [](const BackwardArgs& args) {
            kGradient({.x = args.outputs[0],
                       .gamma = args.inputs[2],
                       .means = args.outputs[2],
                       .inverses = args.outputs[3],
                       .grad_x = args.grad_outputs[0],
                       .grad_y = args.grad_outputs[1],
                       .to_x = residual_gradients(args.grad_inputs),
                       .to_gamma = args.grad_inputs[2],
                       .to_beta = args.grad_inputs[3]});
          },
      .supports = supports,
  };
}

}  // namespace dlpipe::engine
