// What is counted over a batch of logits: loss, top-1, top-5, by name (`--metrics`).
//
// A metric is a number per sample; a MetricSums adds weight * number over samples and weights over samples,
// in f64 and in the samples' order, so that the bits don't depend on threads, and padding (weight 0) doesn't
// count. One thread. Cost: one pass over the logits, O(N K).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// The metric whose value is that of the loss which a run was asked for, and the one that validation judges by where no
/// metric is named.
inline constexpr const char* kLossMetric = "loss";

/// One sample: its logits [K] and its class (0 <= target < K).
struct MetricRecord {
  static constexpr const char* kKind = "metric";
  static std::span<const MetricRecord> built_in();

  const char* name;
  const char* help;
  double (*value)(std::span<const float> logits, int64_t target);
  bool lower_is_better = false;
  bool is_share = false;  // of the samples, from 0 to 1: people read percents
};
/// A value: copy builtin() and add to it.
using MetricRegistry = Registry<MetricRecord>;
/// A built-in one; kMisuse with the nearest name when there is none.
Result<const MetricRecord*> find_metric(std::string_view name);

/// -log softmax(logits)[target].
double cross_entropy_of(std::span<const float> logits, int64_t target);
/// Whether fewer than k classes stand before the target: those with a larger logit or NaN, or an equal one and a
/// smaller number. A target whose logit is NaN is never in the top k.
bool in_top_k(std::span<const float> logits, int64_t target, int k);

class MetricSums {
 public:
  explicit MetricSums(std::vector<const MetricRecord*> metrics) : metrics_(std::move(metrics)) {
    sums_.resize(metrics_.size());
  }
  /// logits f32, bf16 or f16 [N,K]; target i64 [N]; weight f32 [N], or undefined for all 1. Error (kMisuse)
  /// on other shapes and dtypes, or a target outside [0, K) whose weight isn't 0.
  void add(const Tensor& logits, const Tensor& target, const Tensor& weight = Tensor());
  void reset();

  double weight() const { return weight_; }
  const std::vector<const MetricRecord*>& metrics() const { return metrics_; }
  double sum(size_t i) const { return sums_.at(i); }
  /// Weighted mean of metric `i`; 0 before the first sample.
  double mean(size_t i) const { return weight_ > 0.0 ? sums_.at(i) / weight_ : 0.0; }

 private:
  std::vector<const MetricRecord*> metrics_;
  std::vector<double> sums_;
  double weight_ = 0.0;
};

}  // namespace dlpipe::engine
