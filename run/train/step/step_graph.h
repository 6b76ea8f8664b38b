// A step of a device captured once and launched as a whole from then on: one call instead of a thousand
// launches. A step of several batches is as many graphs, one per batch, the last with the update.
//
// The first step runs as it is (kernels and libraries make themselves at home), the second from copies of its
// input and with its memory in a pool of its own, the third is captured; memory and addresses are then the
// second's. What the host counts in a step (host_counters.h) it counts on in every launch, and what was
// marked in the capture is marked in the ledger.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/record/device_ledger.h"
#include "dlpipe/run/train/step/host_counters.h"

namespace dlpipe::run {

class StepGraph {
 public:
  /// Of a step's batches; each is a graph's memory on the device.
  static constexpr int64_t kMostBatches = 32;

  /// `model` is what the step trains, on `batches` a step; the ledger, which lives as long, knows where its
  /// time goes. With `reason`, steps are never captured, and that is why.
  StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, int64_t batches,
            std::string reason = "");

  using Work = std::function<void(const BatchInput& input)>;
  /// The step's batch number `micro`: does `work`, or launches what it did. The work reads nothing that
  /// changes from step to step but the input's values, what lies at fixed addresses on the device, and the
  /// model's gradients and `loss` as the batch before left them; those it may replace.
  void run(const BatchInput& input, int64_t micro, engine::Tensor& loss, const Work& work);

  /// Why steps aren't captured; empty where they are, or will be.
  const std::string& reason() const { return reason_; }

 private:
  /// What a batch's work left, at the addresses of its launches; the pool owns the memory.
  struct Part {
    DeviceLedger::Marks marks;
    HostCounters::Values counts;
    std::vector<engine::Tensor> gradients;
    engine::Tensor loss;
    std::unique_ptr<Graph> graph;
  };
  enum class Phase : uint8_t { kFirst, kPooled, kCapture, kLaunch };

  void take(const BatchInput& input);
  bool fits(const BatchInput& input) const;
  void run_batch(const BatchInput& input, size_t micro, engine::Tensor& loss, const Work& work);
  bool capture(engine::Tensor& loss, const Work& work);
  /// Gradients and loss as they are, without the rest of a Part.
  Part left_now(const engine::Tensor& loss) const;
  void put_back(const Part& part, engine::Tensor& loss);
  void launch(Part& part);
  void end_step();

  Device& device_;
  int64_t batches_;
  std::string reason_;
  DeviceLedger& ledger_;
  HostCounters counters_;
  std::vector<engine::NamedTensor> parameters_;
  Phase phase_ = Phase::kFirst;
  bool is_whole_ = true;  // all batches of the running step were done as its phase says
  engine::BlockPool pool_;
  BatchInput input_;  // at the addresses that the graphs know
  std::vector<Part> parts_;
};

}  // namespace dlpipe::run
