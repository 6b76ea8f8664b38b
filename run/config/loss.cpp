#include "dlpipe/run/config/loss.h"

#include <array>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/cross_entropy.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

Tensor cross_entropy_loss(const Tensor& logits, const Tensor& target, const Tensor& weight,
                          const LossArguments& arguments) {
  return engine::cross_entropy(logits, target, weight, arguments.label_smoothing);
}

Tensor identity(int64_t size, Device& device) {
  // 1 0 0 ... again and again, one element longer than a row: the one moves on by a place per row.
  const Tensor one = Tensor::full({1}, 1.0, DType::kF32, device);
  const Tensor zeros = Tensor::full({size}, 0.0, DType::kF32, device);
  const Tensor longer = engine::concat({one, zeros}, 0)
                            .view_as({size, size + 1}, std::array<int64_t, 2>{0, 1}, 0)
                            .contiguous_copy();
  return longer.view_as({size, size}, std::array<int64_t, 2>{size, 1}, 0);
}

/// f32 [N,K]. A label that is no class is an error, but for samples of weight 0, which have a row of zeros. On a device's
/// memory without the host, which can't look at labels there: a row of zeros for all of them.
Tensor one_hot(const Tensor& target, const Tensor& weight, int64_t classes) {
  const engine::NoGrad no_grad;
  const engine::UseAutocast off(DType::kF32);
  if (!target.device().is_host()) return engine::embedding(identity(classes, target.device()), target);
  const engine::CrossEntropyTargets checked(target, weight, classes, "mse");
  Tensor rows = Tensor::zeros({target.elements(), classes});
  for (int64_t n = 0; n < checked.rows; ++n) {
    const int64_t label = checked.label[n];
    if (label >= 0 && label < classes) rows.data<float>()[n * classes + label] = 1;
  }
  return rows;
}

// Mean over classes, and over samples by weight, of (logit - one-hot)^2.
Tensor mse_loss(const Tensor& logits, const Tensor& target, const Tensor& weight, const LossArguments&) {
  const int64_t samples = logits.size(0);
  const int64_t classes = logits.size(1);
  const Tensor difference = engine::sub(logits, one_hot(target, weight, classes));
  const Tensor squares = engine::mul(difference, difference);
  if (!weight.defined()) return engine::mean(squares);
  const Tensor weighted = engine::mul(squares, engine::reshape(weight, {samples, 1}));
  const Tensor total = engine::scale(engine::sum(weight), static_cast<double>(classes));
  return engine::div(engine::sum(weighted), total);
}

constexpr engine::OptionDefault kCrossEntropyOptions[] = {{"label-smoothing", "0"}};
constexpr LossRecord kCrossEntropy = {"cross_entropy", "softmax and the logarithm of the label's probability",
                                      cross_entropy_loss, kCrossEntropyOptions};
constexpr LossRecord kMse = {
    "mse", "squared distance of the outputs to the label's one-hot vector", mse_loss, {}};
constexpr std::array<const LossRecord*, 2> kLosses = {&kCrossEntropy, &kMse};

}  // namespace

std::span<const LossRecord* const> LossRecord::built_in() {
  return kLosses;
}

Result<const LossRecord*> find_loss(std::string_view name) {
  return LossRegistry::builtin().find(name);
}

}  // namespace dlpipe::run
