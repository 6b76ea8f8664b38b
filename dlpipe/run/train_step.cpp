#include "dlpipe/run/train_step.h"

#include <cmath>
#include <cstring>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/op.h"
#include "dlpipe/engine/ops.h"
#include "dlpipe/run/nonfinite.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

TrainStep::TrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                     const TrainStepOptions& options)
    : model_(model),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      parameters_(model.parameters()),
      buffers_(model.buffers()) {}

StepOutcome TrainStep::run(BatchSource& source, int64_t step, double lr) {
  StepOutcome outcome;
  std::string reason;
  for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
    std::optional<Batch> batch = value_or_throw(source.next());  // writes its own spans
    if (!batch) {
      outcome.source_ended = true;
      return outcome;
    }
    BatchInput input;
    {
      const SpanScope span(Span::kForward);
      if (micro == 0) model_.zero_grad();
      input = batch_input(*batch);
      outcome.samples += batch->count;
      outcome.epoch = batch->epoch;
      outcome.epoch_ended |= batch->last_in_epoch;
      throw_if_error(source.release(*batch));
    }
    outcome.loss += accumulate_gradients(std::move(input), step, micro, reason) /
                    static_cast<double>(options_.accumulate);
  }
  finish(step, lr, std::move(reason), outcome);
  return outcome;
}

StepOutcome TrainStep::run(const BatchInput& input, int64_t step, double lr) {
  StepOutcome outcome;
  std::string reason;
  model_.zero_grad();
  for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
    outcome.samples += input.pixels.size(0);
    outcome.loss +=
        accumulate_gradients(input, step, micro, reason) / static_cast<double>(options_.accumulate);
  }
  finish(step, lr, std::move(reason), outcome);
  return outcome;
}

double TrainStep::accumulate_gradients(BatchInput input, int64_t step, int64_t micro, std::string& reason) {
  Tensor loss;
  double value = 0;
  const auto seed_dropout = [&] {
    engine::random_state() = {options_.seed, step * options_.accumulate + micro, 0};
  };
  {
    const SpanScope span(Span::kForward);
    if (options_.skip_nonfinite && micro == 0) {
      saved_buffers_.clear();
      for (const NamedTensor& buffer : buffers_) saved_buffers_.push_back(buffer.tensor.clone());
    }
    if (input.total_weight == 0) return 0;  // a batch of nothing but dropped rows has no gradient
    seed_dropout();
    const engine::UseAutocast autocast(options_.dtype);
    const Tensor logits = model_(input.pixels);
    loss = options_.loss->compute(logits, input.labels, input.weight, options_.loss_arguments);
    value = loss.item();
    if (!std::isfinite(value) && reason.empty()) {
      seed_dropout();
      reason = first_nonfinite_layer(model_, input.pixels);
      if (reason.empty()) reason = "the loss itself";
    }
    if (reason.empty() && options_.accumulate > 1)
      loss = engine::scale(loss, 1.0 / static_cast<double>(options_.accumulate));
  }
  const SpanScope span(Span::kBackward);
  if (reason.empty()) loss.backward();
  loss = Tensor();  // the graph and the input go here, inside the span
  input = BatchInput();
  return value;
}

void TrainStep::finish(int64_t step, double lr, std::string reason, StepOutcome& outcome) {
  const SpanScope span(Span::kOptimizer);
  if (reason.empty()) reason = first_nonfinite_gradient(parameters_);
  if (reason.empty()) {
    if (options_.clip > 0) engine::clip_grad_norm(parameters_, options_.clip);
    optimizer_.step(lr);
    if (ema_ != nullptr) ema_->update(model_);
    return;
  }
  if (!options_.skip_nonfinite) {
    throw Error(Status(ErrorCode::kNonfinite,
                       concat("[train] step ", step, ": a number is not finite; the first is in ", reason)));
  }
  outcome.skipped = true;
  outcome.reason = std::move(reason);
  model_.zero_grad();
  for (size_t i = 0; i < buffers_.size(); ++i) {  // batch norms have seen the bad batch; they forget it
    std::memcpy(buffers_[i].tensor.raw(), saved_buffers_[i].raw(), saved_buffers_[i].size_bytes());
    buffers_[i].tensor.bump_version();
  }
}

}  // namespace dlpipe::run
