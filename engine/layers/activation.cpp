#include "dlpipe/engine/layers/activation.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

ReLU::ReLU() : ActivationLayer("ReLU", relu, Activation::kRelu) {}
GELU::GELU() : ActivationLayer("GELU", gelu, Activation::kGelu) {}
SiLU::SiLU() : ActivationLayer("SiLU", silu) {}
Sigmoid::Sigmoid() : ActivationLayer("Sigmoid", sigmoid) {}
Tanh::Tanh() : ActivationLayer("Tanh", [](const Tensor& x) { return tanh(x); }) {}
Softmax::Softmax() : ActivationLayer("Softmax", [](const Tensor& x) { return softmax(x); }) {}
Flatten::Flatten() : ActivationLayer("Flatten", flatten) {}

double Flatten::flops(const TensorSpec& /*x*/, const TensorSpec& /*y*/) const {
  return 0.0;
}

Dropout::Dropout(double p) : p_(p) {
  if (p >= 0.0 && p < 1.0) return;
  refuse("Dropout", "expected a probability in [0, 1), got ", p, "; change it");
}

Tensor Dropout::forward(const Tensor& x) {
  return dropout(x, p_, is_training());
}

}  // namespace dlpipe::engine
