// Metrics over batches of logits, by name (`--metrics`): loss, top-1, top-5.
//
// A metric is a number per sample. MetricSums sums weight * number and weight over samples, in f64 and in
// the samples' order, so that the bits don't depend on threads and padding (weight 0) doesn't
// count.
//
// Ownership: records are constants, sums are values. Threads: one thread per MetricSums; the functions are pure. Cost: one pass
// over the logits, O(N K).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/registry.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The metric that is the run's loss. Validation uses it to select the best checkpoint if no metric is named.
inline constexpr const char* kLossMetric = "loss";

/// A metric, by name. For classify it is the mean over samples of `value`, which gets a sample's logits [K] and its class
/// (0 <= target < K). The metrics of other tasks are computed over all samples at once (run/task) and have no `value`.
struct MetricRecord {
  static constexpr const char* kKind = "metric";
  static std::span<const MetricRecord> built_in();

  const char* name;
  const char* help;
  double (*value)(std::span<const float> logits, int64_t target) = nullptr;
  bool lower_is_better = false;
  bool is_share = false;  // in [0, 1]; shown as a percentage
  const char* task = "classify";
};
/// A value: copy builtin() and add to it.
using MetricRegistry = Registry<MetricRecord>;
/// The built-in metric called `name`; kMisuse with the nearest name if there is none.
Result<const MetricRecord*> find_metric(std::string_view name);

/// -log softmax(logits)[target].
double cross_entropy_of(std::span<const float> logits, int64_t target);
/// Whether fewer than k classes rank before the target. A class ranks before it if its logit is larger or NaN, or equal
/// with a smaller index. A target with a logit of NaN is never in the top k.
bool in_top_k(std::span<const float> logits, int64_t target, int k);

class MetricSums {
 public:
  explicit MetricSums(std::vector<const MetricRecord*> metrics) : metrics_(std::move(metrics)) {
    sums_.resize(metrics_.size());
  }
  /// logits f32, bf16 or f16 [N,K]; target i64 [N]; weight f32 [N], or undefined for all 1. Throws Error (kMisuse)
  /// for other shapes and dtypes, or a target outside [0, K) with a nonzero weight.
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
