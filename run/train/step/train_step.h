// One optimizer step: `accumulate` batches through forward and backward, then the update. The inner loop of
// training, without anything around it (no files, no validation), so that training, --overfit-batch and
// `bench train` run the same code.
//
// On the host a step is over when it returns (host_train_step.h). On a device it is then in the stream, and the host
// goes on: its outcome is taken up to StepResults::kDepth steps later (device_train_step.h).
//
// Belongs to the training thread. Everything it does lies in a span of the thread's ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/collective/device_sums.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/grad_scaler.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/config/loss.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/record/device_ledger.h"
#include "dlpipe/run/train/gradients/gradient_sum.h"

namespace dlpipe::run {

struct TrainStepOptions {
  int64_t accumulate = 1;
  /// Equal parts of every batch that are computed by themselves (decision 041); of all `ranks` together.
  int64_t grains = 1;
  engine::Collective* ranks = nullptr;  // that compute other grains; null: none do
  // Of the grains that this rank computes; null: there is no other.
  engine::Collective* tensor_ranks = nullptr;   // have other parts of its weights
  engine::Collective* stage_ranks = nullptr;    // have other layers
  engine::Collective* replica_ranks = nullptr;  // both: all that compute these grains
  engine::DeviceSums* device_sums = nullptr;    // sum gradients instead of `ranks`; on a device
  double peer_timeout_s = 60;                   // for these: how long a sum may take
  bool sync_bn = false;                         // batch norm over all grains; on the host
  engine::Wire wire = engine::Wire::kF32;       // of gradients' sums
  int64_t bucket_bytes = 25 << 20;              // gradients that travel together
  bool shard_optimizer = false;  // each rank keeps optimizer's state and gradients' sums of its share alone
  double clip = 0;               // 0: don't
  DType dtype = DType::kF32;  // kF16: on a device alone, and the loss is scaled (engine/optim/grad_scaler.h)
  bool tf32 = false;          // forward and backward may take it (engine/core/op.h)
  uint64_t seed = 0;
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};
  /// Else the step ends in kNonfinite, unless its loss scale may be why: such a step is always skipped.
  bool skip_nonfinite = false;
  /// On the host: what kernels make of weights (packed, transformed, cast) is kept until the update, as it is where
  /// a step has several parts.
  bool keep_packed = false;
  /// On the host a warning says that it changes nothing.
  GraphUse graph = GraphUse::kAuto;
  /// On the host: passes are recorded and replayed (host_replay.h). On a device a warning says that it changes nothing.
  bool compile = false;

  int world() const { return ranks != nullptr ? ranks->world() : 1; }
  bool shares() const { return shard_optimizer && world() > 1; }
  /// Grains of a batch that are this process's, and the first one's number.
  int64_t own_grains() const { return grains / world(); }
  int64_t first_grain() const { return ranks != nullptr ? ranks->rank() * own_grains() : 0; }
  bool packs_once() const { return keep_packed || accumulate * own_grains() > 1; }
  /// Losses that a step's is the mean of, each of one grain of one batch.
  int64_t parts() const { return accumulate * grains; }
  GradientSum::Form gradient_form() const;
};

struct StepOutcome {
  int64_t step = 0;
  double lr = 0;
  double loss = 0;  // mean over the step's batches and their grains
  int64_t samples = 0;
  int64_t epoch = 0;         // of the last batch
  bool epoch_ended = false;  // the last batch of an epoch was among them
  bool skipped = false;      // not finite: no update was made
  std::string reason;        // why it was skipped: the layer
  bool overflowed = false;   // skipped because the loss scale was too large; it is smaller now
  double loss_scale = 0;     // for the next step; 0: the loss isn't scaled
  /// Bad samples of the step's batches in this process.
  struct BadSample {
    int64_t epoch = 0;
    Substitution what;
  };
  std::vector<BadSample> bad = {};
};

/// Of a pass that is replayed.
struct ReplayMemory {
  size_t arena_bytes = 0;  // what it computes, gradients included
  size_t eager_bytes = 0;  // the most that the same pass had at once when it was recorded
  size_t kernels = 0;      // calls, copies included
  int64_t passes = 0;      // that were replayed so far
};

class TrainStep {
 public:
  /// The one for the model's device. All referred to live longer; `ema` may be null.
  static std::unique_ptr<TrainStep> create(engine::Module& model, engine::Optimizer& optimizer,
                                           engine::Ema* ema, const TrainStepOptions& options);
  virtual ~TrainStep() = default;

  /// Step number `step` (from 0; keys dropout) on batches of `source`. Answers what is known of it already
  /// (its batches; until take_outcome); null where the source has ended and no step was made. At most
  /// StepResults::kDepth steps may be without a taken outcome.
  const StepOutcome* run(BatchSource& source, int64_t step, double lr);
  /// The same on an input at hand, as often as `accumulate` says.
  const StepOutcome* run(const BatchInput& input, int64_t step, double lr);

  /// The next step's outcome, in order; nullopt if there is none yet. With `wait`, or where the device is as
  /// far behind as it may be, waits for it. kNonfinite names the step and the layer.
  virtual std::optional<StepOutcome> take_outcome(bool wait = false) = 0;

  /// Where a device's time went, over the steps whose outcome was taken; no steps on the host. A step asked
  /// for after all outcomes were waited for begins anew and is left out.
  virtual DeviceTimes device_times() const { return {}; }
  /// Why a device's steps aren't one graph; empty where they are or may come to be, and on the host.
  virtual std::string graph_reason() const { return ""; }
  /// With `compile`: why passes aren't replayed; empty where they are or may come to be.
  virtual std::string replay_reason() const { return ""; }
  /// What the passes replayed take; zeros where none was.
  virtual ReplayMemory replay_memory() const { return {}; }
  /// Gives back what is kept from step to step and the next one makes again: before other work that takes memory.
  virtual void release_memory() {}
  /// With shares, of the last update: the sums of gradients that this rank had, all that there were of it.
  virtual size_t gradient_bytes() const { return 0; }
  /// What kernels made of weights and was kept during the last step.
  virtual size_t packed_bytes() const { return 0; }
  /// Null where the loss isn't scaled. Its state is that after the last step asked for.
  virtual engine::GradScaler* scaler() const { return nullptr; }

 protected:
  explicit TrainStep(int64_t accumulate) : accumulate_(accumulate) {}

 private:
  virtual void begin(int64_t step, double lr) = 0;
  /// A batch of the source as input; the source may have it back at once, with stream().
  virtual BatchInput arrive(const Batch& batch) = 0;
  virtual Stream* stream() = 0;
  /// Forward and backward of the step's batch number `micro`.
  virtual void take(BatchInput input, int64_t micro, StepOutcome& outcome) = 0;
  /// The update. Keeps the outcome until it is taken.
  virtual const StepOutcome* finish(StepOutcome outcome) = 0;

  const int64_t accumulate_;
};

}  // namespace dlpipe::run
