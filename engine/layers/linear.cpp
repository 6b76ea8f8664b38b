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

Tensor Linear::forward(const Tensor& x) {
  return linear(x, weight_, bias_);
}

Tensor Linear::forward_activated(const Tensor& x, Activation activation) {
  return linear(x, weight_, bias_, activation);
}

double Linear::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  const double a_point = 2.0 * static_cast<double>(weight_.size(1)) + (bias_.defined() ? 1.0 : 0.0);
  return a_point * static_cast<double>(y.shape.elements());
}

void Linear::reset_parameters(uint64_t seed, const std::string& prefix) {
  reset_affine(weight_, bias_, seed, prefix);
}

}  // namespace dlpipe::engine
