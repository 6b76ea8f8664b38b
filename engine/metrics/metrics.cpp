#include "dlpipe/engine/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {
namespace {

[[noreturn]] void fail(const std::string& message) {
  refuse("metrics", message);
}

constexpr std::array<MetricRecord, 3> kMetrics = {{
    {.name = kLossMetric,
     .help = "the loss: what --loss and its options name, else cross-entropy",
     .value = cross_entropy_of,
     .lower_is_better = true},
    {.name = "top1",
     .help = "share of samples whose class has the largest logit",
     .value = [](std::span<const float> logits,
                 int64_t target) { return in_top_k(logits, target, 1) ? 1.0 : 0.0; },
     .is_share = true},
    {.name = "top5",
     .help = "share of samples whose class is among the five largest logits",
     .value = [](std::span<const float> logits,
                 int64_t target) { return in_top_k(logits, target, 5) ? 1.0 : 0.0; },
     .is_share = true},
}};

template <class T>
void widen_row(const T* row, size_t classes, std::vector<float>* to) {
  for (size_t i = 0; i < classes; ++i) to->push_back(static_cast<float>(row[i]));
}

/// Row `n` of [N,K] logits as f32, in `scratch` where it has to be converted.
std::span<const float> logits_row(const Tensor& logits, int64_t n, std::vector<float>* scratch) {
  const auto classes = static_cast<size_t>(logits.size(1));
  if (logits.dtype() == DType::kF32) return {logits.data<float>() + n * logits.size(1), classes};
  scratch->clear();
  if (logits.dtype() == DType::kBF16) {
    widen_row(logits.data<BFloat16>() + n * logits.size(1), classes, scratch);
  } else {
    widen_row(logits.data<Float16>() + n * logits.size(1), classes, scratch);
  }
  return *scratch;
}

void check(const Tensor& logits, const Tensor& target, const Tensor& weight) {
  const bool good_logits = logits.rank() == 2 && (logits.dtype() == DType::kF32 || is_low(logits.dtype()));
  const bool good_target =
      good_logits && target.dtype() == DType::kI64 && target.shape() == Shape{logits.size(0)};
  const bool good_weight =
      !weight.defined() || (good_target && weight.dtype() == DType::kF32 && weight.shape() == target.shape());
  if (good_logits && good_target && good_weight) return;
  fail(concat(
      "expected logits f32, bf16 or f16 [N,K], target i64 [N], weight f32 [N]; got ",
      dtype_name(logits.dtype()), " ", logits.shape().to_string(), ", ", dtype_name(target.dtype()), " ",
      target.shape().to_string(),
      weight.defined() ? concat(", ", dtype_name(weight.dtype()), " ", weight.shape().to_string()) : "",
      "; give what the loss takes"));
}

Tensor without_gaps(const Tensor& x) {
  return !x.defined() || x.is_contiguous() ? x : x.contiguous_copy();
}

}  // namespace

std::span<const MetricRecord> MetricRecord::built_in() {
  return kMetrics;
}

Result<const MetricRecord*> find_metric(std::string_view name) {
  return MetricRegistry::builtin().find(name);
}

double cross_entropy_of(std::span<const float> logits, int64_t target) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[static_cast<size_t>(target)];
}

bool in_top_k(std::span<const float> logits, int64_t target, int k) {
  const auto own = static_cast<size_t>(target);
  if (std::isnan(logits[own])) return false;
  int before = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    // NaN stands before all numbers, as in PyTorch's topk.
    if (std::isnan(logits[i]) || logits[i] > logits[own] || (logits[i] == logits[own] && i < own)) ++before;
  }
  return before < k;
}

void MetricSums::add(const Tensor& logits, const Tensor& target, const Tensor& weight) {
  check(logits, target, weight);
  const Tensor rows = without_gaps(logits);
  const Tensor targets = without_gaps(target);
  const Tensor weights = without_gaps(weight);
  std::vector<float> scratch;
  for (int64_t n = 0; n < rows.size(0); ++n) {
    const double share = weights.defined() ? weights.data<float>()[n] : 1.0;
    if (share == 0.0) continue;
    const int64_t own = targets.data<int64_t>()[n];
    if (own < 0 || own >= rows.size(1)) {
      fail(concat("class ", own, " of sample ", n, " is outside the ", rows.size(1),
                  " logits; the model was built for other classes"));
    }
    const std::span<const float> row = logits_row(rows, n, &scratch);
    for (size_t i = 0; i < metrics_.size(); ++i) sums_[i] += share * metrics_[i]->value(row, own);
    weight_ += share;
  }
}

void MetricSums::reset() {
  std::ranges::fill(sums_, 0.0);
  weight_ = 0.0;
}

}  // namespace dlpipe::engine
