#include "dlpipe/run/use/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/layers/eval_scope.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/input/batch_input.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

int64_t dropped_rows(const Batch& batch) {
  const std::span<const float> there = batch.weight.first(static_cast<size_t>(batch.count));
  return std::count(there.begin(), there.end(), 0.0f);
}

/// Sums over rows, in their order.
struct Sums {
  explicit Sums(const EvalOptions& options) : metrics(options.metrics) {}
  engine::MetricSums metrics;
  double loss = 0;
  double weight = 0;
};

/// What ranks tell each other of their sums: loss, weight, weight of the metrics, each metric.
std::vector<double> numbers_of(const Sums& sums) {
  std::vector<double> numbers = {sums.loss, sums.weight, sums.metrics.weight()};
  for (size_t m = 0; m < sums.metrics.metrics().size(); ++m) numbers.push_back(sums.metrics.sum(m));
  return numbers;
}

/// One pass: a Sums for all rows, or where batches are cut into grains, one per grain.
class Pass {
 public:
  Pass(engine::Module& model, const EvalOptions& options, const LogitsObserver& observer)
      : model_(model),
        options_(options),
        observer_(observer),
        grains_(options.ranks != nullptr ? options.grains / options.ranks->world() : options.grains) {
    if (options.grains == 1) sums_.emplace_back(options);
  }

  void take(const Batch& batch) {
    const BatchInput input = batch_input(batch, model_.device());
    for (int64_t grain = 0; grain < grains_; ++grain) {
      const bool cuts = options_.grains > 1;
      if (cuts) sums_.emplace_back(options_);
      const Tensor logits = judge(cuts ? input.part(grain, grains_) : input, sums_.back());
      if (observer_)
        observer_(batch, {logits.data<float>(), static_cast<size_t>(logits.elements())}, logits.size(1));
    }
    const int64_t dropped = dropped_rows(batch);
    dropped_ += dropped;
    samples_ += batch.count - dropped;
  }

  EvalReport report() const {
    EvalReport report;
    std::vector<double> numbers = numbers_of(Sums(options_));
    for (const std::vector<double>& each : all_numbers(report)) {
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += each[i];
    }
    const auto mean = [&](size_t i, size_t weight, double without) {
      return numbers[weight] > 0 ? numbers[i] / numbers[weight] : without;
    };
    report.loss = mean(0, 1, std::numeric_limits<double>::quiet_NaN());
    for (size_t m = 0; m < options_.metrics.size(); ++m)
      report.metrics.emplace_back(options_.metrics[m]->name, mean(3 + m, 2, 0));
    for (auto& [name, value] : report.metrics) {
      if (name == engine::kLossMetric)
        value = report.loss;  // the loss that was asked for, not always the metric's cross-entropy
    }
    return report;
  }

 private:
  /// Logits of the rows, on the host.
  Tensor judge(const BatchInput& input, Sums& sums) {
    const engine::UseAutocast autocast(options_.dtype);
    const engine::UseTf32 tf32(options_.tf32);
    const Tensor there = view_logits(model_, input.pixels, options_.views);
    Tensor logits = there.contiguous_copy().to(cpu_device());
    sums.metrics.add(logits, input.labels.to(cpu_device()), input.weight.to(cpu_device()));
    if (input.total_weight > 0) {
      const Tensor loss = options_.loss->compute(there, input.labels, input.weight, options_.loss_arguments);
      sums.loss += loss.item() * input.total_weight;
      sums.weight += input.total_weight;
    }
    return logits;
  }

  /// Of all ranks, in the order of batches and grains; counts of samples go into `report`.
  std::vector<std::vector<double>> all_numbers(EvalReport& report) const {
    std::vector<std::vector<double>> mine;
    for (const Sums& sums : sums_) mine.push_back(numbers_of(sums));
    report.samples = samples_;
    report.dropped = dropped_;
    if (options_.ranks == nullptr) return mine;
    std::vector<double> flat = {static_cast<double>(samples_), static_cast<double>(dropped_)};
    for (const auto& numbers : mine) flat.insert(flat.end(), numbers.begin(), numbers.end());
    const std::vector<std::string> texts = value_or_throw(
        options_.ranks->gather({reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(double)},
                               "the results of validation"));
    report.samples = report.dropped = 0;
    std::vector<std::vector<double>> all;
    const size_t width = mine.empty() ? 0 : mine.front().size();
    for (const std::string& text : texts) {
      std::memcpy(flat.data(), text.data(), text.size());
      report.samples += static_cast<int64_t>(flat[0]);
      report.dropped += static_cast<int64_t>(flat[1]);
    }
    const auto grains = static_cast<size_t>(grains_);
    for (size_t batch = 0; batch * grains < mine.size(); ++batch) {
      for (const std::string& text : texts) {
        std::memcpy(flat.data(), text.data(), text.size());
        for (size_t grain = 0; grain < grains; ++grain) {
          const double* const first = &flat[2 + (batch * grains + grain) * width];
          all.emplace_back(first, first + width);
        }
      }
    }
    return all;
  }

  engine::Module& model_;
  const EvalOptions& options_;
  const LogitsObserver& observer_;
  const int64_t grains_;  // of this rank
  std::vector<Sums> sums_;
  int64_t samples_ = 0;
  int64_t dropped_ = 0;
};

/// Whether evaluation is to end here: all ranks do at the same batch.
bool is_stopped(const EvalOptions& options) {
  const bool mine = options.stop != nullptr && options.stop->load();
  if (options.all_ranks == nullptr) return mine;
  const std::vector<std::string> all =
      value_or_throw(options.all_ranks->gather(mine ? "1" : "0", "a batch of validation"));
  return std::any_of(all.begin(), all.end(), [](const std::string& text) { return text == "1"; });
}

}  // namespace

double EvalReport::value(std::string_view name) const {
  if (name == engine::kLossMetric) return loss;
  for (const auto& [metric, metric_value] : metrics) {
    if (metric == name) return metric_value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

EvalReport evaluate(engine::Module& model, BatchSource& source, const EvalOptions& options,
                    const LogitsObserver& observer) {
  const int64_t begin_ns = now_ns();
  const engine::EvalScope mode(model);
  const engine::NoGrad no_grad;
  Device& device = model.device();
  Pass pass(model, options, observer);
  while (true) {
    if (is_stopped(options)) throw Error(Status(ErrorCode::kCancelled, "[eval] stopped by a signal"));
    const std::optional<Batch> batch = value_or_throw(source.next());
    if (!batch) break;
    pass.take(*batch);
    const bool is_last = batch->last_in_epoch;
    throw_if_error(source.release(*batch, device.is_host() ? nullptr : &engine::engine_stream(device)));
    if (is_last) break;
  }
  EvalReport report = pass.report();
  report.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace dlpipe::run
