#include "dlpipe/run/train/step/train_step.h"

#include <utility>
#include <vector>

#include "dlpipe/base/ledger.h"
#include "dlpipe/run/train/step/device_train_step.h"
#include "dlpipe/run/train/step/host_train_step.h"

namespace dlpipe::run {

GradientSum::Form TrainStepOptions::gradient_form() const {
  return {.grains = own_grains(),
          .batches = accumulate,
          .ranks = ranks,
          .bucket_bytes = bucket_bytes,
          .wire = wire,
          .shares = shares(),
          .device_sums = device_sums,
          .peer_timeout_s = peer_timeout_s};
}

std::unique_ptr<TrainStep> TrainStep::create(engine::Module& model, engine::Optimizer& optimizer,
                                             engine::Ema* ema, const TrainStepOptions& options) {
  if (model.device().is_host()) return std::make_unique<HostTrainStep>(model, optimizer, ema, options);
  return std::make_unique<DeviceTrainStep>(model, optimizer, ema, options);
}

static StepOutcome outcome_of(int64_t step, double lr) {
  StepOutcome outcome;
  outcome.step = step;
  outcome.lr = lr;
  return outcome;
}

const StepOutcome* TrainStep::run(BatchSource& source, int64_t step, double lr) {
  StepOutcome outcome = outcome_of(step, lr);
  begin(step, lr);
  for (int64_t micro = 0; micro < accumulate_; ++micro) {
    std::optional<Batch> batch = value_or_throw(source.next());  // writes its own spans
    if (!batch) return nullptr;
    BatchInput input;
    {
      const SpanScope span(Span::kForward);
      input = arrive(*batch);
      outcome.samples += batch->count;
      outcome.epoch = batch->epoch;
      outcome.epoch_ended |= batch->last_in_epoch;
      for (const Substitution& bad : batch->substitutions) outcome.bad.push_back({batch->epoch, bad});
      throw_if_error(source.release(*batch, stream()));
    }
    take(std::move(input), micro, outcome);
  }
  return finish(std::move(outcome));
}

const StepOutcome* TrainStep::run(const BatchInput& input, int64_t step, double lr) {
  StepOutcome outcome = outcome_of(step, lr);
  begin(step, lr);
  for (int64_t micro = 0; micro < accumulate_; ++micro) {
    outcome.samples += input.labels.size(0) / (input.is_mixed ? 2 : 1);
    take(input, micro, outcome);
  }
  return finish(std::move(outcome));
}

}  // namespace dlpipe::run
