// One optimizer step: `accumulate` batches through forward and backward, then the update. The inner loop of
// training, without anything around it (no files, no validation), so that training, --overfit-batch and
// `bench train` run the same code.
//
// On the host a step is over when it returns. On a device it is then in the stream, and the host goes on: its
// outcome is taken up to StepResults::kDepth steps later.
//
// Belongs to the training thread. Everything it does lies in a span of the thread's ledger.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/grad_scaler.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/config/loss.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/train/host_counters.h"
#include "dlpipe/run/train/step_graph.h"
#include "dlpipe/run/train/step_results.h"

namespace dlpipe::run {

struct TrainStepOptions {
  int64_t accumulate = 1;
  double clip = 0;            // 0: don't
  DType dtype = DType::kF32;  // kF16: on a device alone, and the loss is scaled (engine/optim/grad_scaler.h)
  bool tf32 = false;          // forward and backward may take it (engine/core/op.h)
  uint64_t seed = 0;
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};
  /// Else the step ends in kNonfinite, unless its loss scale may be why: such a step is always skipped.
  bool skip_nonfinite = false;
  /// On a device: whether steps are launched as one graph (step_graph.h). kOn: an error where they can't be.
  /// On the host a warning says that it changes nothing.
  enum class Graph : uint8_t { kAuto, kOn, kOff } graph = Graph::kAuto;
};
/// "auto", "on", "off".
Result<TrainStepOptions::Graph> parse_graph(std::string_view name);

struct StepOutcome {
  int64_t step = 0;
  double lr = 0;
  double loss = 0;  // mean over the step's batches
  int64_t samples = 0;
  int64_t epoch = 0;         // of the last batch
  bool epoch_ended = false;  // the last batch of an epoch was among them
  bool skipped = false;      // not finite: no update was made
  std::string reason;        // why it was skipped: the layer
  bool overflowed = false;   // skipped because the loss scale was too large; it is smaller now
  double loss_scale = 0;     // for the next step; 0: the loss isn't scaled
};

class TrainStep {
 public:
  /// All referred to live longer; `ema` may be null. The device is the model's.
  TrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
            const TrainStepOptions& options);

  /// Step number `step` (from 0; keys dropout) on batches of `source`. Answers what is known of it already
  /// (its batches; until take_outcome); null where the source has ended and no step was made. At most
  /// StepResults::kDepth steps may be without a taken outcome.
  const StepOutcome* run(BatchSource& source, int64_t step, double lr);
  /// The same on an input at hand, as often as `accumulate` says.
  const StepOutcome* run(const BatchInput& input, int64_t step, double lr);

  /// The next step's outcome, in order; nullopt if there is none yet. With `wait`, or where the device is as
  /// far behind as it may be, waits for it. kNonfinite names the step and the layer.
  std::optional<StepOutcome> take_outcome(bool wait = false);

  /// Where a device's time went, over the steps whose outcome was taken; no steps on the host. A step asked
  /// for after all outcomes were waited for begins anew and is left out.
  DeviceTimes device_times() const { return results_ != nullptr ? results_->times() : DeviceTimes(); }
  /// Why a device's steps aren't one graph; empty where they are or may come to be, and on the host.
  std::string graph_reason() const { return graph_ != nullptr ? graph_->reason() : ""; }
  /// Null where the loss isn't scaled. Its state is that after the last step asked for.
  engine::GradScaler* scaler() const { return scaler_.get(); }

 private:
  /// A step whose outcome wasn't taken.
  struct Issued {
    StepOutcome outcome;
    BatchInput input;              // the last, to look for the layer; on a device alone
    HostCounters::Values counted;  // by the step
  };
  StepOutcome begin(int64_t step, double lr);
  BatchInput arrive(const Batch& batch);
  /// The step's batch number `micro`.
  void take(BatchInput input, int64_t micro, StepOutcome& outcome);
  void clear_gradients();
  /// Forward and backward of one batch: adds its loss to the step's and its gradients to the parameters'. On
  /// the host the outcome's reason is set when they aren't finite.
  void accumulate_gradients(BatchInput input, int64_t micro, StepOutcome& outcome);
  const StepOutcome* finish(StepOutcome outcome);
  /// The update, or, when something isn't finite (its reason, or a gradient), what the options say.
  void update_on_host(StepOutcome& outcome);
  void update_on_device();
  void save_buffers();
  void complete(Issued& issued, const StepResults::Result& result);
  std::string find_layer(const BatchInput& input, int64_t step, int64_t micro);
  void seed_dropout(int64_t step, int64_t micro) const;
  /// In a device's ledger; nothing on the host.
  void mark(Span span);

  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  TrainStepOptions options_;
  Device& device_;
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> buffers_;
  HostCounters counters_;
  HostCounters::Values counts_before_;         // the step under way
  std::vector<engine::Tensor> saved_buffers_;  // as before the step, with skip_nonfinite
  engine::Tensor loss_;                        // of the step so far, on a device
  BatchInput last_input_;                      // likewise
  std::deque<Issued> issued_;
  // On a device alone.
  engine::DeviceStepFlags flags_;               // of the last step
  std::unique_ptr<engine::GradScaler> scaler_;  // with f16
  engine::Tensor random_key_;                   // of the batch (engine/ops/ops.h: RandomState::device_key)
  std::unique_ptr<StepGraph> graph_;
  std::unique_ptr<StepResults> results_;  // goes first: waits for steps that use the graph's memory
};

}  // namespace dlpipe::run
