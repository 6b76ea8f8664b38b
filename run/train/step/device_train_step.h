// The step of a model on a device: when it returns, it is in the stream. Steps are launched as one graph where
// they can be (step_graph.h), outcomes are read later (step_results.h), and whether a step counts the device
// decides by itself.
//
// Where a batch is cut into grains, or other processes compute some, a step is no graph and the host waits once per step, for
// its losses: gradients are summed between kernels (gradients/gradient_sum.h), on the device and, between processes, through the host or by
// NCCL.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "dlpipe/run/train/gradients/gradient_sum.h"
#include "dlpipe/run/train/gradients/statistics_mean.h"
#include "dlpipe/run/train/step/batch_pass.h"
#include "dlpipe/run/train/step/host_counters.h"
#include "dlpipe/run/train/step/step_graph.h"
#include "dlpipe/run/train/step/step_results.h"
#include "dlpipe/run/train/step/step_summary.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class DeviceTrainStep final : public TrainStep {
 public:
  DeviceTrainStep(engine::Module& model, engine::Optimizer& optimizer, engine::Ema* ema,
                  const TrainStepOptions& options);

  std::optional<StepOutcome> take_outcome(bool wait) override;
  DeviceTimes device_times() const override { return results_.times(); }
  std::string graph_reason() const override { return graph_->reason(); }
  engine::GradScaler* scaler() const override { return scaler_.get(); }

 private:
  /// A step whose outcome wasn't taken.
  struct Issued {
    StepOutcome outcome;
    BatchInput input;              // the last, to look for the layer
    HostCounters::Values counted;  // by the step
  };
  /// Of grains and processes.
  struct Together {
    Together(BatchPass& pass, const TrainStepOptions& options);
    GradientSum gradients;
    StatisticsMean statistics;
    StepSummary summary;
    std::vector<engine::Tensor> losses = {};  // [batch][grain] of this step; undefined: of no weight
  };
  void begin(int64_t step, double lr) override;
  BatchInput arrive(const Batch& batch) override;
  Stream* stream() override;
  /// Each batch of a step is one piece of work, so that it can be captured.
  void take(BatchInput input, int64_t micro, StepOutcome& outcome) override;
  const StepOutcome* finish(StepOutcome outcome) override;
  /// Adds the batch's loss to the step's and its gradients to the parameters'.
  void accumulate_gradients(BatchInput input, int64_t step, int64_t micro);
  /// The loss of a part; undefined where it has no weight.
  engine::Tensor forward(const BatchInput& input, int64_t step, int64_t part);
  void backward(const engine::Tensor& loss);
  void check_graph() const;
  void take_grains(const BatchInput& input, int64_t micro, int64_t step);
  /// All grains' gradients, statistics and losses; waits.
  void add_up(StepOutcome& outcome);
  /// Where the first loss that isn't finite got so.
  std::string layer_of(size_t loss, int64_t step);
  void update();
  /// Where a number wasn't finite.
  std::string reason_of(const Issued& issued, const StepResults::Result& result);
  void complete(Issued& issued, const StepResults::Result& result);
  void mark(Span span) { results_.ledger().mark(span); }

  Device& device_;
  engine::Module& model_;
  engine::Optimizer& optimizer_;
  engine::Ema* ema_;
  const TrainStepOptions options_;
  BatchPass pass_;
  HostCounters counters_;
  HostCounters::Values counts_before_;          // the step under way
  engine::Tensor loss_;                         // of the step so far
  BatchInput last_input_;                       // likewise
  engine::DeviceStepFlags flags_;               // of the last step
  std::unique_ptr<engine::GradScaler> scaler_;  // with f16
  std::unique_ptr<Together> together_;          // null: a batch is computed whole, by this process alone
  std::deque<Issued> issued_;
  std::unique_ptr<StepGraph> graph_;  // marks in the ledger of results_
  StepResults results_;               // goes first: waits for steps that use the graph's memory
};

}  // namespace dlpipe::run
