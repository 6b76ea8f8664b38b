#include "dlpipe/run/step_graph.h"

#include "dlpipe/engine/device_memory.h"

namespace dlpipe::run {

using engine::Tensor;

StepGraph::StepGraph(Device& device, const engine::Module& model, std::string reason)
    : device_(device), reason_(std::move(reason)), pool_(device) {
  for (const engine::NamedTensor& buffer : model.buffers()) {
    if (buffer.tensor.dtype() == DType::kI64) counters_.push_back(buffer.tensor);
  }
}

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

std::vector<int64_t> StepGraph::counts() const {
  std::vector<int64_t> values;
  for (const Tensor& counter : counters_) values.push_back(*counter.data<int64_t>());
  return values;
}
void StepGraph::set_counts(const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) *counters_[i].data<int64_t>() = values[i];
}

// Nothing runs meanwhile: a step that can't be captured is done anew.
void StepGraph::capture(const Work& work) {
  const std::vector<int64_t> before = counts();
  try {
    const engine::BlockPool::Use use(pool_);
    engine::Capture capture(device_);
    work(input_);
    graph_ = capture.finish();
  } catch (const Error& error) {
    reason_ = error.what();
  }
  counts_a_step_ = counts();
  for (size_t i = 0; i < before.size(); ++i) counts_a_step_[i] -= before[i];
  set_counts(before);
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
  throw_if_error(device_.launch(*graph_, engine::engine_stream(device_)));
  std::vector<int64_t> values = counts();
  for (size_t i = 0; i < values.size(); ++i) values[i] += counts_a_step_[i];
  set_counts(values);
  return true;
}

}  // namespace dlpipe::run
