// The step of a model on the host: it is over when it returns, and its outcome is there to be taken.
#pragma once

#include <deque>
#include <optional>

#include "dlpipe/run/train/batch_pass.h"
#include "dlpipe/run/train/train_step.h"

namespace dlpipe::run {

class HostTrainStep final : public TrainStep {
 public:
  HostTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                const TrainStepOptions& options);

  std::optional<StepOutcome> take_outcome(bool wait) override;

 private:
  void begin(int64_t, double) override {}
  BatchInput arrive(const Batch& batch) override;
  Stream* stream() override { return nullptr; }
  void take(BatchInput input, int64_t micro, StepOutcome& outcome) override;
  const StepOutcome* finish(StepOutcome outcome) override;
  /// What the options say of a step that isn't finite.
  void refuse(StepOutcome& outcome);

  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  const TrainStepOptions options_;
  BatchPass pass_;
  std::deque<StepOutcome> outcomes_;  // that weren't taken
};

}  // namespace dlpipe::run
