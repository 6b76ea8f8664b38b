#include "dlpipe/engine/layers/norm.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/recompute.h"
#include "dlpipe/engine/ops/batch_statistics.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

void check_size(const char* layer, int64_t size) {
  if (size >= 1) return;
  refuse(layer, "expected a positive size, got ", size, "; change it");
}

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t channels, double epsilon, double momentum)
    : epsilon_(epsilon), momentum_(momentum) {
  check_size("BatchNorm2d", channels);
  weight_ = add_parameter("weight", Tensor::full({channels}, 1.0));
  bias_ = add_parameter("bias", Tensor::zeros({channels}));
  running_mean_ = add_buffer("running_mean", Tensor::zeros({channels}));
  running_var_ = add_buffer("running_var", Tensor::full({channels}, 1.0));
  batches_tracked_ = add_buffer("num_batches_tracked", Tensor::zeros(Shape(), DType::kI64));
}

Tensor BatchNorm2d::normalize(const Tensor& x, bool relu, const Tensor& residual) {
  const bool training = is_training() && weight_.requires_grad();
  const BatchNormAttrs attrs{epsilon_, momentum_, training, relu};
  if (training && is_recomputing()) {
    // The batch has been counted.
    Tensor mean = running_mean_.clone(), var = running_var_.clone();
    return batch_norm(x, weight_, bias_, mean, var, attrs, residual);
  }
  if (training && (statistics_peers() == nullptr || statistics_peers()->leads())) {
    ++*batches_tracked_.data<int64_t>();
    batches_tracked_.bump_version();
  }
  return batch_norm(x, weight_, bias_, running_mean_, running_var_, attrs, residual);
}

Tensor BatchNorm2d::forward_relu(const Tensor& x, const Tensor& residual) {
  return run_forward_hooks(x, normalize(x, true, residual));
}

double BatchNorm2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  // By the running statistics: one multiplication and one addition per element.
  return 2.0 * static_cast<double>(y.shape.elements());
}

void BatchNorm2d::reset_parameters(uint64_t /*seed*/, const std::string& /*prefix*/) {
  fill_constant(weight_, 1.0);
  fill_constant(bias_, 0.0);
  fill_constant(running_mean_, 0.0);
  fill_constant(running_var_, 1.0);
  *batches_tracked_.data<int64_t>() = 0;
}

LayerNorm::LayerNorm(int64_t size, double epsilon) : epsilon_(epsilon) {
  check_size("LayerNorm", size);
  weight_ = add_parameter("weight", Tensor::full({size}, 1.0));
  bias_ = add_parameter("bias", Tensor::zeros({size}));
}

Tensor Residual::value() const {
  return branch.defined() ? x + branch : x;
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, weight_, bias_, epsilon_);
}

Tensor LayerNorm::forward_residual(Residual& stream) {
  if (is_watched()) {
    stream = {stream.value()};
    return (*this)(stream.x);
  }
  if (!stream.branch.defined()) return layer_norm(stream.x, weight_, bias_, epsilon_, autocast_dtype());
  auto [x, y] = add_layer_norm(stream.x, stream.branch, weight_, bias_, epsilon_, autocast_dtype());
  stream = {std::move(x)};
  return y;
}

double LayerNorm::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  // Mean, squared distances, scaling by the deviation, weight and bias: about eight per element.
  return 8.0 * static_cast<double>(y.shape.elements());
}

void LayerNorm::reset_parameters(uint64_t /*seed*/, const std::string& /*prefix*/) {
  fill_constant(weight_, 1.0);
  fill_constant(bias_, 0.0);
}

}  // namespace dlpipe::engine
