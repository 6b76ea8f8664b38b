#include "dlpipe/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {
namespace {

[[noreturn]] void fail(const std::string& message) {
  refuse("metrics", message);
}

constexpr auto kMetrics = std::to_array<MetricRecord>({
    {.name = kLossMetric,
     .help = "the loss of --loss and its options, without label smoothing and class weights",
     .value = cross_entropy_of,
     .lower_is_better = true},
    {.name = "top1",
     .help = "fraction of samples whose class has the largest logit",
     .value = [](std::span<const float> logits,
                 int64_t target) { return in_top_k(logits, target, 1) ? 1.0 : 0.0; },
     .is_share = true},
    {.name = "top5",
     .help = "fraction of samples whose class is among the five largest logits",
     .value = [](std::span<const float> logits,
                 int64_t target) { return in_top_k(logits, target, 5) ? 1.0 : 0.0; },
     .is_share = true},
    {.name = "map",
     .help =
         "labels: scikit-learn's average precision, the mean over labels that occur; boxes: COCO's AP, the "
         "mean over classes that occur and over overlaps of 0.5 to 0.95",
     .is_share = true,
     .task = "multilabel, detect"},
    {.name = "auroc",
     .help = "area under the ROC curve of each label; the mean over labels that some samples have and some "
             "do not",
     .is_share = true,
     .task = "multilabel"},
    {.name = "macro_f1",
     .help = "F1 of each label at a probability of 0.5; the mean over labels",
     .is_share = true,
     .task = "multilabel"},
    {.name = "micro_f1",
     .help = "F1 over all labels of all samples at a probability of 0.5",
     .is_share = true,
     .task = "multilabel"},
    {.name = "mae",
     .help = "mean absolute error in the data's units; the mean over targets",
     .lower_is_better = true,
     .task = "regress"},
    {.name = "rmse",
     .help = "root of the mean squared error in the data's units; the mean over targets",
     .lower_is_better = true,
     .task = "regress"},
    {.name = "r2",
     .help = "coefficient of determination: 1 - squared error / variance; the mean over targets",
     .task = "regress"},
    {.name = "miou",
     .help = "intersection over union of each class, over all pixels; the mean over classes that occur",
     .is_share = true,
     .task = "segment"},
    {.name = "pixel_accuracy",
     .help = "share of the pixels whose class is right",
     .is_share = true,
     .task = "segment"},
    {.name = "dice",
     .help = "2 |p t| / (|p| + |t|) of each class, over all pixels; the mean over classes that occur",
     .is_share = true,
     .task = "segment"},
    {.name = "map50",
     .help = "COCO's AP at an overlap of 0.5: intersection over union",
     .is_share = true,
     .task = "detect"},
    {.name = "map75", .help = "COCO's AP at an overlap of 0.75", .is_share = true, .task = "detect"},
    {.name = "map_small",
     .help =
         "COCO's AP of objects of up to 32 x 32 pixels of the model's input image; no value if there is no "
         "such object",
     .is_share = true,
     .task = "detect"},
    {.name = "map_medium",
     .help = "COCO's AP of objects of 32 x 32 to 96 x 96 pixels",
     .is_share = true,
     .task = "detect"},
    {.name = "map_large",
     .help = "COCO's AP of objects of 96 x 96 pixels and more",
     .is_share = true,
     .task = "detect"},
});

template <class T>
void widen_row(const T* row, size_t classes, std::vector<float>* to) {
  for (size_t i = 0; i < classes; ++i) to->push_back(static_cast<float>(row[i]));
}

/// Row `n` of [N,K] logits as f32, in `scratch` if it has to be converted.
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
      "; use the inputs of the loss"));
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
    // NaN ranks before all numbers, as in PyTorch's topk.
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
