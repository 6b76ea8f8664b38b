#include "dlpipe/run/train/host_train_step.h"

#include <cmath>
#include <cstring>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/run/train/nonfinite.h"

namespace dlpipe::run {

using engine::Tensor;

HostTrainStep::HostTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                             const TrainStepOptions& options)
    : TrainStep(options.accumulate),
      model_(model),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      pass_(model, options) {
  if (options_.graph == GraphUse::kOn)  // perhaps a device's run that goes on here
    log(LogLevel::kWarning,
        concat("--graph on changes nothing on ", model.device().name(), ": it goes with --device cuda"));
}

BatchInput HostTrainStep::arrive(const Batch& batch) {
  return batch_input(batch);
}

void HostTrainStep::take(BatchInput input, int64_t micro, StepOutcome& outcome) {
  if (micro == 0) pass_.begin_step();
  if (input.total_weight == 0) return;  // a batch of nothing but dropped rows has no gradient
  const engine::UseTf32 tf32(options_.tf32);
  Tensor loss;
  {
    const SpanScope span(Span::kForward);
    const engine::UseAutocast autocast(options_.dtype);
    loss = pass_.loss(input, outcome.step, micro);
    const double value = loss.item();
    outcome.loss += value / static_cast<double>(options_.accumulate);
    if (!std::isfinite(value) && outcome.reason.empty())
      outcome.reason = pass_.find_layer(input, outcome.step, micro);
    loss = pass_.share(loss);
  }
  const SpanScope span(Span::kBackward);
  if (outcome.reason.empty()) loss.backward();
  loss = Tensor();  // the graph and the input go here, inside the span
  input = BatchInput();
}

const StepOutcome* HostTrainStep::finish(StepOutcome outcome) {
  const SpanScope span(Span::kOptimizer);
  if (outcome.reason.empty()) outcome.reason = first_nonfinite_gradient(pass_.parameters());
  if (outcome.reason.empty()) {
    if (options_.clip > 0) engine::clip_grad_norm(pass_.parameters(), options_.clip);
    optimizer_.step(outcome.lr);
    if (ema_ != nullptr) ema_->update(model_);
  } else {
    refuse(outcome);
  }
  return &outcomes_.emplace_back(std::move(outcome));
}

void HostTrainStep::refuse(StepOutcome& outcome) {
  if (!options_.skip_nonfinite) fail_nonfinite(outcome.step, outcome.reason);
  outcome.skipped = true;
  model_.zero_grad();
  const std::vector<Tensor>& saved = pass_.saved_buffers();
  for (size_t i = 0; i < saved.size(); ++i) {  // batch norms have seen the bad batch; they forget it
    Tensor& buffer = pass_.buffers()[i].tensor;
    std::memcpy(buffer.raw(), saved[i].raw(), saved[i].size_bytes());
    buffer.bump_version();
  }
}

std::optional<StepOutcome> HostTrainStep::take_outcome(bool) {
  if (outcomes_.empty()) return std::nullopt;
  StepOutcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace dlpipe::run
