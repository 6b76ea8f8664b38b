#include "dlpipe/engine/layers/linear.h"

#include <limits>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

Linear::Linear(int64_t in, int64_t out, bool bias) {
  if (in < 1 || out < 1) {
    refuse("Linear", "expected positive sizes, got ", in, " -> ", out, "; change them");
  }
  constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();
  weight_ = add_parameter("weight", Tensor::full({out, in}, kUnset));
  if (bias) bias_ = add_parameter("bias", Tensor::full({out}, kUnset));
}

void Linear::split_outputs(Collective& ranks, int64_t blocks) {
  split_parameter(weight_, {.axis = 0, .blocks = blocks}, ranks);
  split_parameter(bias_, {.axis = 0, .blocks = blocks}, ranks);
  outputs_over_ = &ranks;
}

void Linear::split_inputs(Collective& ranks) {
  split_parameter(weight_, {.axis = 1}, ranks);
  inputs_over_ = &ranks;
}

Tensor Linear::forward(const Tensor& x) {
  if (inputs_over_ != nullptr) return forward_summed(x);
  return linear(outputs_over_ != nullptr ? sum_gradient(x, *outputs_over_) : x, weight_, bias_);
}

Tensor Linear::forward_summed(const Tensor& x) {
  const Tensor y = sum_over_ranks(linear(x, weight_, Tensor()), *inputs_over_);
  return bias_.defined() ? y + bias_ : y;
}

Tensor Linear::forward_activated(const Tensor& x, Activation activation) {
  if (inputs_over_ != nullptr) return {};
  return linear(outputs_over_ != nullptr ? sum_gradient(x, *outputs_over_) : x, weight_, bias_, activation);
}

double Linear::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  const double a_point = 2.0 * static_cast<double>(weight_.size(1)) + (bias_.defined() ? 1.0 : 0.0);
  return a_point * static_cast<double>(y.shape.elements());
}

void Linear::reset_parameters(uint64_t seed, const std::string& prefix) {
  reset_affine(weight_, bias_, seed, prefix);
}

}  // namespace dlpipe::engine
