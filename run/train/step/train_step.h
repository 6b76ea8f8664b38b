// One optimizer step: `accumulate` batches through forward and backward, then the update. The inner loop of
// training, without anything around it (no files, no validation), so that training, --overfit-batch and
// `bench train` run the same code.
//
// On the host, a step is finished when the call returns (host_step.cpp). On a device it is then queued in the stream, and the
// host continues; the step's outcome is taken up to kMostInFlight steps later (device_step.cpp).
//
// Belongs to the training thread. Everything it does is in a span of the thread's ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/config.h"
#include "dlpipe/module.h"
#include "dlpipe/optim.h"
#include "engine/collective/collective.h"
#include "engine/collective/nccl.h"
#include "engine/optim/gradients.h"
#include "run/config/values.h"
#include "run/input/batch_input.h"
#include "run/record/device_ledger.h"
#include "run/train/gradients/gradient_sum.h"

namespace dlpipe::run {

struct TrainStepOptions {
  int64_t accumulate = 1;
  /// The number of equal parts of every batch that are computed separately (decision 041), by all `ranks` together.
  int64_t grains = 1;
  engine::Collective* ranks = nullptr;  // that compute other grains; null: none do
  // Ranks that compute other stages or parts of this rank's grains; null: there are none.
  engine::Collective* tensor_ranks = nullptr;   // have other parts of its weights
  engine::Collective* stage_ranks = nullptr;    // have other layers
  engine::Collective* replica_ranks = nullptr;  // both: all that compute these grains
  engine::DeviceSums* device_sums = nullptr;    // sum gradients instead of `ranks`; on a device
  double peer_timeout_s = 60;                   // for device_sums: how long a sum may take
  bool sync_bn = false;                         // batch norm over all grains; on the host
  engine::Wire wire = engine::Wire::kF32;       // of gradients' sums
  int64_t bucket_bytes = 25 << 20;              // gradients that are exchanged together
  bool shard_optimizer =
      false;                  // each rank keeps the optimizer's state and gradients' sums only for its share
  double clip = 0;            // 0: off
  DType dtype = DType::kF32;  // kF16: only on a device, and the loss is scaled (engine/optim/gradients.h)
  bool tf32 = false;          // forward and backward may use it (dlpipe/op.h)
  uint64_t seed = 0;
  TargetSpec target = {};
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};
  /// Skips steps that are not finite. Otherwise they fail with kNonfinite, unless the loss scale may be the cause: such a step is
  /// always skipped.
  bool skip_nonfinite = false;
  /// On the host: caches weights that kernels have packed, transformed or cast until the update. A step with several parts always
  /// does.
  bool keep_packed = false;
  /// On the host, kOn has no effect, with a warning.
  GraphUse graph = GraphUse::kAuto;

  int world() const { return ranks != nullptr ? ranks->world() : 1; }
  bool shares() const { return shard_optimizer && world() > 1; }
  /// This process's grains of a batch, and the first one's number.
  int64_t own_grains() const { return grains / world(); }
  int64_t first_grain() const { return ranks != nullptr ? ranks->rank() * own_grains() : 0; }
  bool packs_once() const { return keep_packed || accumulate * own_grains() > 1; }
  /// Number of losses that a step's loss is the mean of, each of one grain of one batch.
  int64_t parts() const { return accumulate * grains; }
  GradientSum::Form gradient_form() const;
};

struct StepOutcome {
  int64_t step = 0;
  double lr = 0;
  double loss = 0;  // mean over the step's batches and their grains
  int64_t samples = 0;
  int64_t epoch = 0;         // of the last batch
  bool epoch_ended = false;  // one of the batches was the last of an epoch
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

class TrainStep {
 public:
  /// Steps on a device whose outcome may not be taken yet.
  static constexpr int64_t kMostInFlight = 2;
  /// Most batches of a step that are launched as graphs, each of which has memory on the device.
  static constexpr int64_t kMostGraphs = 32;

  /// Creates the step for the model's device. All arguments must outlive it; `ema` may be null.
  static std::unique_ptr<TrainStep> create(engine::Module& model, engine::Optimizer& optimizer,
                                           engine::Ema* ema, const TrainStepOptions& options);
  virtual ~TrainStep() = default;

  /// Runs step number `step` (from 0; keys dropout) on batches of `source`. Returns what is already known about it (its batches;
  /// valid until take_outcome); null if the source has ended and no step was made. The outcomes of at most kMostInFlight steps
  /// may be left to take.
  const StepOutcome* run(BatchSource& source, int64_t step, double lr);
  /// The same on a given input, repeated `accumulate` times.
  const StepOutcome* run(const BatchInput& input, int64_t step, double lr);

  /// The next step's outcome, in order; nullopt if there is none yet. With `wait`, or if the device is as far behind as
  /// allowed, waits for it. kNonfinite names the step and the layer.
  virtual std::optional<StepOutcome> take_outcome(bool wait = false) = 0;

  /// Where a device's time went, over the steps whose outcome was taken; no steps on the host. A step launched after all
  /// outcomes were waited for starts a new measurement and is left out.
  virtual DeviceTimes device_times() const { return {}; }
  /// Why a device's steps are not one graph; empty if they are or may become one, and on the host.
  virtual std::string graph_reason() const { return ""; }
  /// With shares: the sums of gradients that this rank had in the last update.
  virtual size_t gradient_bytes() const { return 0; }
  /// The size of cached weights (packed, transformed or cast) during the last step.
  virtual size_t packed_bytes() const { return 0; }
  /// Null if the loss is not scaled. Its state is that after the last launched step.
  virtual engine::GradScaler* scaler() const { return nullptr; }

 protected:
  explicit TrainStep(int64_t accumulate) : accumulate_(accumulate) {}

 private:
  static std::unique_ptr<TrainStep> on_host(engine::Module& model, engine::Optimizer& optimizer,
                                            engine::Ema* ema, const TrainStepOptions& options);
  static std::unique_ptr<TrainStep> on_device(engine::Module& model, engine::Optimizer& optimizer,
                                              engine::Ema* ema, const TrainStepOptions& options);
  virtual void begin(int64_t step, double lr) = 0;
  /// Converts a batch of the source to an input; the batch may be released to the source at once, with stream().
  virtual BatchInput arrive(const Batch& batch) = 0;
  virtual Stream* stream() = 0;
  /// Forward and backward of the step's batch number `micro`.
  virtual void take(BatchInput input, int64_t micro, StepOutcome& outcome) = 0;
  /// Updates the weights. Keeps the outcome until it is taken.
  virtual const StepOutcome* finish(StepOutcome outcome) = 0;

  const int64_t accumulate_;
};

// Processes one batch of a step, or a grain of one, on host or device: the forward pass to the loss, dropout keyed by the step,
// and buffers that can undo a batch. Shared by host_step.cpp and device_step.cpp. Belongs to the training thread.
class BatchPass {
 public:
  /// `model` must outlive it. `random_key`: where a device reads dropout's key (dlpipe/ops.h: RandomState::device_key);
  /// undefined on the host.
  BatchPass(engine::Module& model, const TrainStepOptions& options, engine::Tensor random_key = {});

  /// Before a step's first batch: clears gradients, and with skip_nonfinite copies the buffers, always to the same addresses.
  void begin_step();
  /// Sets dropout's key for the step's part `part` (a batch, or one of its grains), also on the device.
  void seed(int64_t step, int64_t part) const;
  /// The loss of a part that has weight: a mean over its samples. On a stage other than the last one, a placeholder of the loss
  /// (engine/layers/staged.h).
  engine::Tensor loss(const BatchInput& input, int64_t step, int64_t part);
  /// Zero, with the same history, for a part without weight: batch norms must see it, too.
  engine::Tensor no_loss(const BatchInput& input, int64_t step, int64_t part);
  /// The share of a part's `loss` in the step's loss, which is the mean over options.parts().
  engine::Tensor share(const engine::Tensor& loss) const;
  /// After a loss or gradient that is not finite: the layer where the first such number is, or "the loss itself".
  std::string find_layer(const BatchInput& input, int64_t step, int64_t part);

  const std::vector<engine::NamedTensor>& parameters() const { return parameters_; }
  std::vector<engine::NamedTensor>& buffers() { return buffers_; }
  /// The buffers before the step, in the same order; with skip_nonfinite.
  const std::vector<engine::Tensor>& saved_buffers() const { return saved_buffers_; }

 private:
  void save_buffers();
  void seed_host(int64_t step, int64_t part) const;
  /// The first non-empty text of the ranks with parts of the weights.
  std::string first_word(std::string mine) const;

  engine::Module& model_;
  const TrainStepOptions options_;
  const engine::Tensor random_key_;
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> buffers_;
  std::vector<engine::Tensor> saved_buffers_;
};

/// Throws kNonfinite: `reason` is where the first such number is. `step` counts from 0, like StepOutcome::step; the message
/// counts from 1, like all output for users.
[[noreturn]] void fail_nonfinite(int64_t step, const std::string& reason);

}  // namespace dlpipe::run
