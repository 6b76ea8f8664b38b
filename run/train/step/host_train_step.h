// The step of a model on the host: it is over when it returns, and its outcome is there to be taken.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/layers/stage_line.h"
#include "dlpipe/run/train/gradients/gradient_sum.h"
#include "dlpipe/run/train/gradients/shared_gradients.h"
#include "dlpipe/run/train/gradients/split_gradients.h"
#include "dlpipe/run/train/gradients/statistics_mean.h"
#include "dlpipe/run/train/step/batch_pass.h"
#include "dlpipe/run/train/step/grain_turns.h"
#include "dlpipe/run/train/step/host_replay.h"
#include "dlpipe/run/train/step/step_summary.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class HostTrainStep final : public TrainStep {
 public:
  HostTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                const TrainStepOptions& options);

  std::optional<StepOutcome> take_outcome(bool wait) override;
  std::string replay_reason() const override { return replay_ ? replay_->reason() : ""; }
  ReplayMemory replay_memory() const override { return replay_ ? replay_->memory() : ReplayMemory(); }
  void release_memory() override;
  size_t gradient_bytes() const override { return gradient_bytes_; }
  size_t packed_bytes() const override { return packed_bytes_; }

 private:
  void begin(int64_t, double) override {}
  BatchInput arrive(const Batch& batch) override;
  Stream* stream() override { return nullptr; }
  void take(BatchInput input, int64_t micro, StepOutcome& outcome) override;
  /// The same of a batch whose grains share batch norm's statistics.
  void take_together(BatchInput input, int64_t micro, const StepOutcome& outcome);
  /// The grains of a batch one behind the other, or as a stage of a pipeline: a few ahead (1F1B).
  void take_in_turn(BatchInput input, int64_t micro, const StepOutcome& outcome);
  /// A grain between its forward and its backward.
  struct Passing {
    BatchInput input;
    engine::Tensor loss;  // undefined: it has none
  };
  Passing go_forward(BatchInput input, int64_t micro, int64_t grain, const StepOutcome& outcome);
  void go_back(Passing passing, int64_t micro, int64_t grain);
  engine::Tensor loss_of(const BatchInput& input, int64_t micro, int64_t grain, int64_t step);
  void walk_back(const engine::Tensor& loss, bool counts);
  /// Whether a grain whose forward is over walks back: with shared statistics all grains do, or none.
  bool walks_back(bool is_good);
  /// For ops of the step's parts; null: nothing is kept.
  engine::ConstantCache* packed() { return packed_ ? &*packed_ : nullptr; }
  const StepOutcome* finish(StepOutcome outcome) override;
  void update(double lr);
  void update_shares(double lr);
  /// What the options say of a step that isn't finite.
  void refuse(StepOutcome& outcome);

  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  const TrainStepOptions options_;
  engine::StageLine* const line_;  // null: this rank has all layers
  BatchPass pass_;
  GradientSum gradients_;
  StatisticsMean statistics_;
  StepSummary summary_;
  SplitGradients whole_gradients_;
  std::optional<SharedGradients> shared_;        // none: every rank has all gradients
  std::unique_ptr<GrainTurns> turns_;            // null: each batch norm looks at a grain
  std::optional<HostReplay> replay_;             // with --compile
  std::optional<engine::ConstantCache> packed_;  // from a step's first part to its update
  std::deque<StepOutcome> outcomes_;             // that weren't taken
  size_t gradient_bytes_ = 0;
  size_t packed_bytes_ = 0;
};

}  // namespace dlpipe::run
