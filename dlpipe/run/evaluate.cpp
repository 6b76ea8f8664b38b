#include "dlpipe/run/evaluate.h"

#include <cmath>
#include <limits>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/engine/op.h"
#include "dlpipe/engine/ops.h"
#include "dlpipe/run/batch_input.h"

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

int64_t dropped_rows(const BatchInput& input, int64_t count) {
  int64_t dropped = 0;
  for (int64_t n = 0; n < count; ++n) dropped += input.weight.data<float>()[n] == 0 ? 1 : 0;
  return dropped;
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
    const BatchInput input = batch_input(*batch);
    const engine::UseAutocast autocast(options.dtype);
    const Tensor logits = view_logits(model, input.pixels, options.views).contiguous_copy();
    metrics.add(logits, input.labels, input.weight);
    const int64_t dropped = dropped_rows(input, batch->count);
    report.dropped += dropped;
    report.samples += batch->count - dropped;
    if (input.total_weight > 0) {
      const Tensor loss = options.loss->compute(logits, input.labels, input.weight, options.loss_arguments);
      loss_sum += loss.item() * input.total_weight;
      weight_sum += input.total_weight;
    }
    if (observer) {
      observer(*batch, {logits.data<float>(), static_cast<size_t>(logits.elements())}, logits.size(1));
    }
    const bool is_last = batch->last_in_epoch;
    throw_if_error(source.release(*batch));
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
