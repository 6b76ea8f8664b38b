#include "dlpipe/engine/models/half_group.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

static std::shared_ptr<Conv2d> group_convolution(int64_t in, int64_t out) {
  return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.padding = 1, .bias = false});
}

HalfGroup::HalfGroup(int64_t in, int64_t out, GroupActivation activation, double epsilon, double momentum)
    : activation_(activation),
      conv1_(add_module("conv1", group_convolution(in, out))),
      pool_(add_module("pool", std::make_shared<MaxPool2d>(2))),
      norm1_(add_module("norm1", std::make_shared<BatchNorm2d>(out, epsilon, momentum))),
      conv2_(add_module("conv2", group_convolution(out, out))),
      norm2_(add_module("norm2", std::make_shared<BatchNorm2d>(out, epsilon, momentum))) {}

Tensor HalfGroup::normalized(BatchNorm2d& norm, const Tensor& x) const {
  return activation_ == GroupActivation::kRelu ? norm.forward_relu(x) : gelu(norm(x));
}

Tensor HalfGroup::forward(const Tensor& x) {
  const Tensor half = normalized(*norm1_, (*pool_)((*conv1_)(x)));
  return normalized(*norm2_, (*conv2_)(half));
}

}  // namespace dlpipe::engine
