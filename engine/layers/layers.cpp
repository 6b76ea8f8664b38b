#include "dlpipe/layers.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/collective/collective.h"
#include "engine/layers/recompute.h"
#include "engine/layers/split.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/sequences.h"

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

namespace {

Pool2dAttrs make_attrs(Size2 kernel, const Pool2dArguments& arguments) {
  Pool2dAttrs attrs;
  attrs.kernel = kernel;
  attrs.stride = arguments.stride.value_or(kernel);
  attrs.padding = arguments.padding;
  attrs.ceil_mode = arguments.ceil_mode;
  attrs.count_include_pad = arguments.count_include_pad;
  return attrs;
}

double window_flops(const Pool2dAttrs& attrs, const TensorSpec& y) {
  return static_cast<double>(attrs.kernel[0]) * attrs.kernel[1] * static_cast<double>(y.shape.elements());
}

}  // namespace

MaxPool2d::MaxPool2d(Size2 kernel, const Pool2dArguments& arguments)
    : attrs_(make_attrs(kernel, arguments)) {}

double MaxPool2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return window_flops(attrs_, y);
}

AvgPool2d::AvgPool2d(Size2 kernel, const Pool2dArguments& arguments)
    : attrs_(make_attrs(kernel, arguments)) {}

double AvgPool2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return window_flops(attrs_, y);
}

double GlobalAvgPool::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  return static_cast<double>(x.shape.elements());
}

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
    // The first forward has already counted this batch.
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
  // With the running statistics: one multiplication and one addition per element.
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

Embedding::Embedding(int64_t count, int64_t size) : count_(count) {
  if (count < 1 || size < 1) {
    refuse("Embedding", "expected positive sizes, got ", count, " x ", size, "; change them");
  }
  weight_ = add_parameter("weight", Tensor::full({count, size}, std::numeric_limits<double>::quiet_NaN()));
}

void Embedding::split_over(Collective& ranks) {
  if (count_ < ranks.world())
    refuse("Embedding", count_, " rows can't be split over ", ranks.world(), " ranks; use fewer");
  first_row_ = static_cast<int64_t>(ranks.part_of(static_cast<size_t>(count_)).begin);
  split_parameter(weight_, {.axis = 0}, ranks);
  rows_over_ = &ranks;
}

Tensor Embedding::forward(const Tensor& ids) {
  return rows_over_ != nullptr ? sum_over_ranks(own_rows(ids), *rows_over_) : embedding(weight_, ids);
}

Tensor Embedding::own_rows(const Tensor& ids) {
  const Tensor all = ids.is_contiguous() ? ids : ids.contiguous_copy();
  check_ids(all, count_);
  Shape rows = ids.shape();
  rows.push_back(1);
  Tensor own_ids = Tensor::zeros(ids.shape(), DType::kI64);
  Tensor is_own = Tensor::zeros(rows);
  for (int64_t i = 0; i < all.elements(); ++i) {
    const int64_t row = all.data<int64_t>()[i] - first_row_;
    if (row < 0 || row >= weight_.size(0)) continue;
    own_ids.data<int64_t>()[i] = row;
    is_own.data<float>()[i] = 1.0f;
  }
  return embedding(weight_, own_ids) * is_own;
}

Tensor Embedding::logits(const Tensor& x) {
  if (rows_over_ == nullptr) return run_forward_hooks(x, linear(x, weight_, Tensor()));
  return run_forward_hooks(
      x, join_last_axis(linear(sum_gradient(x, *rows_over_), weight_, Tensor()), count_, *rows_over_));
}

double Embedding::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  if (x.dtype == DType::kI64) return 0.0;  // rows are looked up
  return 2.0 * static_cast<double>(x.shape.elements()) * static_cast<double>(count_);
}

void Embedding::reset_parameters(uint64_t seed, const std::string& prefix) {
  fill_normal(weight_, {seed, prefix + "weight"}, 0.0, 1.0);
}

Upsample::Upsample(const UpsampleArguments& arguments) : size_(arguments.size), scale_(arguments.scale) {
  if (!size_ && !(scale_ > 0 && scale_ < std::numeric_limits<int>::max()))
    refuse("Upsample", "expected a scale above 0, got ", scale_);
  if (arguments.align_corners && arguments.mode != UpsampleMode::kBilinear)
    refuse("Upsample", "align_corners is for bilinear only; leave it out");
  if (arguments.mode == UpsampleMode::kNearest) return;
  attrs_.coordinates =
      arguments.align_corners ? ResizeCoordinates::kAlignCorners : ResizeCoordinates::kHalfPixel;
  attrs_.rounding = ResizeRounding::kPreferCeil;
  if (arguments.mode == UpsampleMode::kBilinear) {
    attrs_.mode = ResizeMode::kLinear;
    attrs_.rounding = ResizeRounding::kFloor;
  }
}

Tensor Upsample::forward(const Tensor& x) {
  if (size_) {
    attrs_.size = *size_;
    return resize(x, attrs_);
  }
  // kAlignCorners uses the output's corners, regardless of the scale.
  const bool has_corners = attrs_.coordinates == ResizeCoordinates::kAlignCorners;
  const auto scaled = [&](int axis, int& size, double& scale) {
    const int64_t in = axis < x.rank() ? x.size(axis) : 1;
    const double out = std::floor(static_cast<double>(in) * scale_);
    if (out > std::numeric_limits<int>::max())
      refuse("Upsample", "impossible sizes: ", scale_, " times ", in);
    size = static_cast<int>(out);
    scale = has_corners || out / static_cast<double>(in) == scale_ ? 0 : scale_;
  };
  scaled(1, attrs_.size[0], attrs_.scale_height);
  scaled(2, attrs_.size[1], attrs_.scale_width);
  return resize(x, attrs_);
}

double Upsample::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return (attrs_.mode == ResizeMode::kLinear ? 9.0 : 1.0) * static_cast<double>(y.shape.elements());
}

SelfAttention::SelfAttention(int64_t width, int heads, bool causal) : heads_(heads), causal_(causal) {
  if (heads < 1 || width < 1 || width % heads != 0) {
    refuse("SelfAttention", "expected a width that ", heads, " heads divide, got ", width, "; change one");
  }
  qkv_ = add_module("qkv", std::make_shared<Linear>(width, 3 * width));
  proj_ = add_module("proj", std::make_shared<Linear>(width, width));
}

void SelfAttention::split_over(Collective& ranks) {
  if (heads_ % ranks.world() != 0)
    refuse("SelfAttention", heads_, " heads can't be split over ", ranks.world(),
           " ranks; use a number that divides them");
  qkv_->split_outputs(ranks, 3);
  proj_->split_inputs(ranks);
  heads_ /= ranks.world();
}

Tensor SelfAttention::forward(const Tensor& x) {
  return (*proj_)(self_attention((*qkv_)(x), heads_, causal_));
}

double SelfAttention::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  Shape qkv = x.shape;
  qkv[-1] *= 3;
  return attention_flops(qkv, {heads_, causal_});
}

TransformerBlock::TransformerBlock(int64_t width, int heads, bool causal)
    : norm1_(add_module("norm1", std::make_shared<LayerNorm>(width))),
      attn_(add_module("attn", std::make_shared<SelfAttention>(width, heads, causal))),
      norm2_(add_module("norm2", std::make_shared<LayerNorm>(width))),
      fc1_(add_module("fc1", std::make_shared<Linear>(width, 4 * width))),
      fc2_(add_module("fc2", std::make_shared<Linear>(4 * width, width))) {}

Residual TransformerBlock::run(Residual stream) {
  Tensor normal = norm1_->forward_residual(stream);
  stream.branch = (*attn_)(normal);
  normal = norm2_->forward_residual(stream);
  stream.branch = (*fc2_)((*fc1_)(normal, Activation::kGelu));
  return stream;
}

void TransformerBlock::split_over(Collective& ranks) {
  attn_->split_over(ranks);
  fc1_->split_outputs(ranks);
  fc2_->split_inputs(ranks);
}

double TransformerBlock::cost(int64_t width, int64_t length) {
  return static_cast<double>(12 * width * width + 2 * width * length);
}

Tensor TransformerBlock::forward(const Tensor& x) {
  return run({x}).value();
}

Residual TransformerBlock::operator()(Residual stream) {
  if (is_watched()) return {(*this)(stream.value())};
  return run(std::move(stream));
}

void initialize_transformer(Module& model, uint64_t seed, int blocks) {
  initialize(model, seed);
  constexpr double kDeviation = 0.02;
  for (NamedTensor& parameter : model.parameters()) {
    const std::string& name = parameter.name;
    const bool ends_branch = name.ends_with("attn.proj.weight") || name.ends_with("fc2.weight");
    if (parameter.tensor.rank() > 1) {
      fill_normal(parameter.tensor, {seed, name}, 0.0,
                  ends_branch ? kDeviation / std::sqrt(2.0 * blocks) : kDeviation);
    } else if (name.ends_with("bias")) {
      fill_constant(parameter.tensor, 0.0);
    }
  }
}

}  // namespace dlpipe::engine
