#include "dlpipe/engine/layers/conv2d.h"

#include <limits>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"

namespace dlpipe::engine {

Conv2d::Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dArguments& arguments)
    : attrs_{arguments.stride, arguments.padding, arguments.dilation, arguments.groups, Activation::kNone} {
  if (in < 1 || out < 1 || kernel.height < 1 || kernel.width < 1 || arguments.groups < 1 ||
      in % arguments.groups != 0 || out % arguments.groups != 0) {
    refuse("Conv2d", "expected positive sizes and channels that the groups divide, got ", in, " -> ", out,
           " channels, kernel ", kernel.height, "x", kernel.width, ", ", arguments.groups,
           " groups; change them");
  }
  constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();
  weight_ = add_parameter("weight",
                          Tensor::full({out, in / arguments.groups, kernel.height, kernel.width}, kUnset));
  if (arguments.bias) bias_ = add_parameter("bias", Tensor::full({out}, kUnset));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight_, bias_, attrs_);
}

Tensor Conv2d::forward_activated(const Tensor& x, Activation activation) {
  if (activation != Activation::kRelu) return {};
  Conv2dAttrs attrs = attrs_;
  attrs.activation = activation;
  return conv2d(x, weight_, bias_, attrs);
}

double Conv2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  const double a_point = 2.0 * static_cast<double>(fans(weight_.shape()).in) + (bias_.defined() ? 1.0 : 0.0);
  return a_point * static_cast<double>(y.shape.elements());
}

void Conv2d::reset_parameters(uint64_t seed, const std::string& prefix) {
  reset_affine(weight_, bias_, seed, prefix);
}

}  // namespace dlpipe::engine
