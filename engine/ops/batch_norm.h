// The tensors of batch_norm by their names, for its kernels on every backend. [C] is the images' last axis.
#pragma once

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {

struct BatchNormTensors {
  Tensor x;
  Tensor gamma;         // [C]
  Tensor beta;          // [C]
  Tensor running_mean;  // [C], moved in training
  Tensor running_var;   // [C], moved in training
  Tensor residual;      // like x; undefined: there is none
  Tensor y;             // gets the images
  Tensor mean;          // [C], gets the mean that was used
  Tensor inverse;       // [C], gets 1/sqrt(variance + epsilon) of the variance that was used

  explicit BatchNormTensors(const ForwardArgs& args)
      : x(args.inputs[0]),
        gamma(args.inputs[1]),
        beta(args.inputs[2]),
        running_mean(args.inputs[3]),
        running_var(args.inputs[4]),
        residual(has_input(args.inputs, 5) ? args.inputs[5] : Tensor()),
        y(args.outputs[0]),
        mean(args.outputs[1]),
        inverse(args.outputs[2]) {}
};

/// Undefined targets are not wanted.
struct BatchNormGradients {
  Tensor x;
  Tensor gamma;
  Tensor y;  // undefined where no relu asks for it
  Tensor mean;
  Tensor inverse;
  Tensor grad_y;
  Tensor to_x;
  Tensor to_gamma;
  Tensor to_beta;
  Tensor to_residual;

  explicit BatchNormGradients(const BackwardArgs& args)
      : x(args.inputs[0]),
        gamma(args.inputs[1]),
        y(has_input(args.outputs, 0) ? args.outputs[0] : Tensor()),
        mean(args.outputs[1]),
        inverse(args.outputs[2]),
        grad_y(args.grad_outputs[0]),
        to_x(wanted(args, 0)),
        to_gamma(wanted(args, 1)),
        to_beta(wanted(args, 2)),
        to_residual(wanted(args, 5)) {}

 private:
  static Tensor wanted(const BackwardArgs& args, size_t input) {
    return has_input(args.grad_inputs, input) ? args.grad_inputs[input] : Tensor();
  }
};

/// The first element; null where the tensor is undefined.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw()) : nullptr;
}

}  // namespace dlpipe::engine
