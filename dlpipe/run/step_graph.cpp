#include "dlpipe/run/step_graph.h"

#include "dlpipe/engine/device_memory.h"

namespace dlpipe::run {

using engine::Tensor;

StepGraph::StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, std::string reason)
    : device_(device), reason_(std::move(reason)), ledger_(ledger), counters_(model), pool_(device) {}

bool StepGraph::fits(const BatchInput& input) const {
  return !input_.pixels.defined() ||
         (input.pixels.spec() == input_.pixels.spec() && input.labels.spec() == input_.labels.spec());
}

void StepGraph::take(const BatchInput& input) {
  if (!input_.pixels.defined())
    input_ = {input.pixels.clone(), input.labels.clone(), input.weight.clone(), input.total_weight,
              input.is_mixed};
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    engine::copy_memory(device_, to.raw(), device_, from.raw(), to.size_bytes());
  };
  copy(input_.pixels, input.pixels);
  copy(input_.labels, input.labels);
  copy(input_.weight, input.weight);
}

// Nothing runs meanwhile: a step that can't be captured is done anew.
void StepGraph::capture(const Work& work) {
  const HostCounters::Values before = counters_.values();
  ledger_.begin_capture();
  try {
    const engine::BlockPool::Use use(pool_);
    engine::Capture capture(device_);
    work(input_);
    graph_ = capture.finish();
  } catch (const Error& error) {
    reason_ = error.what();
  }
  marks_ = ledger_.end_capture();
  counts_a_step_ = counters_.since(before);
  counters_.take_back(counts_a_step_);
}

bool StepGraph::run(const BatchInput& input, const Work& work) {
  if (!reason_.empty() || input.total_weight == 0 || steps_ == 0 || !fits(input)) {
    ++steps_;
    work(input);
    return false;
  }
  take(input);
  if (steps_ == 1) {
    ++steps_;
    const engine::BlockPool::Use use(pool_);
    work(input_);
    return false;
  }
  if (graph_ == nullptr) capture(work);
  if (graph_ == nullptr) {
    work(input);
    return false;
  }
  ledger_.replay(marks_, *graph_);
  throw_if_error(device_.launch(*graph_, engine::engine_stream(device_)));
  counters_.add(counts_a_step_);
  return true;
}

}  // namespace dlpipe::run
