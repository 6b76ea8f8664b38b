#include "dlpipe/run/use/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/input/batch_input.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

// Puts a model into eval mode for its scope.
class EvalMode {
 public:
  explicit EvalMode(engine::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  engine::Module& model_;
  bool was_training_;
};

int64_t dropped_rows(const Batch& batch) {
  const std::span<const float> there = batch.weight.first(static_cast<size_t>(batch.count));
  return std::count(there.begin(), there.end(), 0.0f);
}

}  // namespace

double EvalReport::value(std::string_view name) const {
  if (name == "loss") return loss;
  for (const auto& [metric, metric_value] : metrics) {
    if (metric == name) return metric_value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

EvalReport evaluate(engine::Module& model, BatchSource& source, const EvalOptions& options,
                    const LogitsObserver& observer) {
  const int64_t begin_ns = now_ns();
  const EvalMode mode(model);
  const engine::NoGrad no_grad;
  Device& device = model.device();
  const bool is_host = device.is_host();
  EvalReport report;
  engine::MetricSums metrics(options.metrics);
  double loss_sum = 0;
  double weight_sum = 0;
  while (true) {
    if (options.stop != nullptr && options.stop->load()) {
      throw Error(Status(ErrorCode::kCancelled, "[eval] stopped by a signal"));
    }
    const std::optional<Batch> batch = value_or_throw(source.next());
    if (!batch) break;
    const BatchInput input = batch_input(*batch, device);
    const engine::UseAutocast autocast(options.dtype);
    const engine::UseTf32 tf32(options.tf32);
    const Tensor there = view_logits(model, input.pixels, options.views);
    const Tensor logits = there.contiguous_copy().to(cpu_device());
    metrics.add(logits, input.labels.to(cpu_device()), input.weight.to(cpu_device()));
    const int64_t dropped = dropped_rows(*batch);
    report.dropped += dropped;
    report.samples += batch->count - dropped;
    if (input.total_weight > 0) {
      const Tensor loss = options.loss->compute(there, input.labels, input.weight, options.loss_arguments);
      loss_sum += loss.item() * input.total_weight;
      weight_sum += input.total_weight;
    }
    if (observer) {
      observer(*batch, {logits.data<float>(), static_cast<size_t>(logits.elements())}, logits.size(1));
    }
    const bool is_last = batch->last_in_epoch;
    throw_if_error(source.release(*batch, is_host ? nullptr : &engine::engine_stream(device)));
    if (is_last) break;
  }
  report.loss = weight_sum > 0 ? loss_sum / weight_sum : std::numeric_limits<double>::quiet_NaN();
  for (size_t m = 0; m < options.metrics.size(); ++m) {
    report.metrics.emplace_back(options.metrics[m]->name, metrics.mean(m));
  }
  report.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace dlpipe::run
