#include "dlpipe/run/loss.h"

#include <array>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

Tensor cross_entropy_loss(const Tensor& logits, const Tensor& target, const Tensor& weight,
                          const LossArguments& arguments) {
  return engine::cross_entropy(logits, target, weight, arguments.label_smoothing);
}

// Mean over classes, and over samples by weight, of (logit - one-hot)^2.
Tensor mse_loss(const Tensor& logits, const Tensor& target, const Tensor& weight, const LossArguments&) {
  const int64_t samples = logits.size(0);
  const int64_t classes = logits.size(1);
  Tensor wanted = Tensor::zeros({samples, classes});
  const Tensor labels = target.to(cpu_device());
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t label = labels.data<int64_t>()[n];
    if (label >= 0 && label < classes) wanted.data<float>()[n * classes + label] = 1;
  }
  const Tensor difference = engine::sub(logits, wanted.to(logits.device()));
  const Tensor squares = engine::mul(difference, difference);
  if (!weight.defined()) return engine::mean(squares);
  double total = 0;
  for (const double w : weight.to_doubles()) total += w;
  const Tensor weighted = engine::mul(squares, engine::reshape(weight, {samples, 1}));
  return engine::scale(engine::sum(weighted), 1.0 / (total * static_cast<double>(classes)));
}

constexpr LossRecord kCrossEntropy = {"cross_entropy", "softmax and the logarithm of the label's probability",
                                      cross_entropy_loss};
constexpr LossRecord kMse = {"mse", "squared distance of the outputs to the label's one-hot vector",
                             mse_loss};
constexpr std::array<const LossRecord*, 2> kLosses = {&kCrossEntropy, &kMse};

}  // namespace

std::span<const LossRecord* const> loss_table() {
  return kLosses;
}

Result<const LossRecord*> find_loss(std::string_view name, std::span<const LossRecord* const> extra) {
  std::vector<std::string> names;
  for (const std::span<const LossRecord* const> table :
       {extra, std::span<const LossRecord* const>(kLosses)}) {
    for (const LossRecord* record : table) {
      if (record->name == name) return record;
      names.emplace_back(record->name);
    }
  }
  return Status(ErrorCode::kMisuse, concat("[train] there is no loss '", name, "'", suggestion(name, names)));
}

}  // namespace dlpipe::run
