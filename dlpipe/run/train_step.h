// One optimizer step: `accumulate` batches through forward and backward, then the update. The inner loop of
// training, without anything around it (no files, no validation), so that training, --overfit-batch and
// `bench train` run the same code.
//
// Belongs to the training thread. Everything it does lies in a span of the thread's ledger.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/batch_input.h"
#include "dlpipe/run/loss.h"

namespace dlpipe::run {

struct TrainStepOptions {
  int64_t accumulate = 1;
  double clip = 0;  // 0: don't
  DType dtype = DType::kF32;
  uint64_t seed = 0;
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};
  bool skip_nonfinite = false;  // else the step ends in kNonfinite
};

struct StepOutcome {
  double loss = 0;  // mean over the step's batches
  int64_t samples = 0;
  int64_t epoch = 0;          // of the last batch
  bool epoch_ended = false;   // the last batch of an epoch was among them
  bool skipped = false;       // not finite: no update was made
  std::string reason;         // why it was skipped: the layer
  bool source_ended = false;  // no batch was left: no step was made
};

class TrainStep {
 public:
  /// All referred to live longer; `ema` may be null.
  TrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
            const TrainStepOptions& options);

  /// Step number `step` (from 0; keys dropout) on batches of `source`. kNonfinite names the step and the
  /// layer.
  StepOutcome run(BatchSource& source, int64_t step, double lr);
  /// The same on an input at hand, as often as `accumulate` says.
  StepOutcome run(const BatchInput& input, int64_t step, double lr);

 private:
  /// Forward and backward of one batch; answers the loss, adds gradients. `reason` is set when it isn't
  /// finite.
  double accumulate_gradients(BatchInput input, int64_t step, int64_t micro, std::string& reason);
  /// The update, or, when something isn't finite (`reason`, or a gradient), what the options say.
  void finish(int64_t step, double lr, std::string reason, StepOutcome& outcome);

  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  TrainStepOptions options_;
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> buffers_;
  std::vector<engine::Tensor> saved_buffers_;  // as before the step, with skip_nonfinite
};

}  // namespace dlpipe::run
