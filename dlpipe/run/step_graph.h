// A step of a device captured once and launched as a whole from then on: one call instead of a thousand
// launches.
//
// The first step runs as it is (kernels and libraries make themselves at home), the second from copies of its
// input and with its memory in a pool of its own, the third is captured; memory and addresses are then the
// second's. What the host counts in a step (batch norms' batches) it counts on in every launch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/allocator.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/batch_input.h"

namespace dlpipe::run {

class StepGraph {
 public:
  /// `model` is what the step trains. With `reason`, steps are never captured, and that is why.
  StepGraph(Device& device, const engine::Module& model, std::string reason = "");

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
  std::vector<int64_t> counts() const;
  void set_counts(const std::vector<int64_t>& values);

  Device& device_;
  std::string reason_;
  std::vector<engine::Tensor> counters_;  // on the host
  std::vector<int64_t> counts_a_step_;
  int64_t steps_ = 0;
  engine::BlockPool pool_;
  BatchInput input_;  // at the addresses that the graph knows
  std::unique_ptr<Graph> graph_;
};

}  // namespace dlpipe::run
