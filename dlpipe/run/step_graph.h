// A step of a device captured once and launched as a whole from then on: one call instead of a thousand
// launches.
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

#include "dlpipe/engine/allocator.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/batch_input.h"
#include "dlpipe/run/device_ledger.h"
#include "dlpipe/run/host_counters.h"

namespace dlpipe::run {

class StepGraph {
 public:
  /// `model` is what the step trains; the ledger, which lives as long, knows where its time goes. With
  /// `reason`, steps are never captured, and that is why.
  StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, std::string reason = "");

  using Work = std::function<void(const BatchInput& input)>;
  /// Does `work`, or launches what it did: answers whether it launched. The work reads nothing that changes
  /// from step to step but the input's values and what lies at fixed addresses on the device.
  bool run(const BatchInput& input, const Work& work);

  bool is_captured() const { return graph_ != nullptr; }
  /// Why steps aren't captured; empty where they are, or will be.
  const std::string& reason() const { return reason_; }

 private:
  void take(const BatchInput& input);
  bool fits(const BatchInput& input) const;
  void capture(const Work& work);

  Device& device_;
  std::string reason_;
  DeviceLedger& ledger_;
  HostCounters counters_;
  HostCounters::Values counts_a_step_;
  int64_t steps_ = 0;
  engine::BlockPool pool_;
  BatchInput input_;           // at the addresses that the graph knows
  DeviceLedger::Marks marks_;  // that it makes
  std::unique_ptr<Graph> graph_;
};

}  // namespace dlpipe::run
