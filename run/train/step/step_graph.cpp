#include "dlpipe/run/train/step/step_graph.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_memory.h"

namespace dlpipe::run {

using engine::Tensor;

// The same memory, not owned.
static Tensor borrowed(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return Tensor::borrow(tensor.raw(), tensor.shape(), tensor.dtype(), tensor.device());
}

StepGraph::StepGraph(Device& device, const engine::Module& model, DeviceLedger& ledger, int64_t batches,
                     std::string reason)
    : device_(device),
      batches_(batches),
      reason_(std::move(reason)),
      ledger_(ledger),
      counters_(model),
      parameters_(model.parameters()),
      pool_(device) {
  if (reason_.empty() && batches > kMostBatches)
    reason_ = concat("a step is more than ", kMostBatches, " batches (--accumulate)");
}

bool StepGraph::fits(const BatchInput& input) const {
  return !input_.pixels.defined() ||
         (input.pixels.spec() == input_.pixels.spec() && input.labels.spec() == input_.labels.spec());
}

void StepGraph::take(const BatchInput& input) {
  if (!input_.pixels.defined())
    input_ = {input.pixels.clone(), input.labels.clone(), input.weight.clone(),
              input.total_weight,   input.sample_weight,  input.is_mixed};
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    engine::copy_memory(device_, to.raw(), device_, from.raw(), to.size_bytes());
  };
  copy(input_.pixels, input.pixels);
  copy(input_.labels, input.labels);
  copy(input_.weight, input.weight);
}

// Nothing runs meanwhile: what can't be captured is done anew, from what the batch before left. Its memory is
// the pool's, from which nothing is taken then.
bool StepGraph::capture(Tensor& loss, const Work& work) {
  Part part;
  const HostCounters::Values counts_before = counters_.values();
  const Part before = left_now(loss);
  ledger_.begin_capture();
  try {
    const engine::BlockPool::Use use(pool_);
    engine::Capture capture(device_);
    work(input_);
    part = left_now(loss);
    part.graph = capture.finish();
  } catch (const Error& error) {
    reason_ = error.what();
  }
  part.marks = ledger_.end_capture();
  part.counts = counters_.since(counts_before);
  counters_.take_back(part.counts);
  if (part.graph == nullptr) {
    put_back(before, loss);
    return false;
  }
  parts_.push_back(std::move(part));
  return true;
}

StepGraph::Part StepGraph::left_now(const Tensor& loss) const {
  Part part;
  part.loss = borrowed(loss);
  for (const engine::NamedTensor& parameter : parameters_)
    part.gradients.push_back(borrowed(parameter.tensor.grad()));
  return part;
}
void StepGraph::put_back(const Part& part, Tensor& loss) {
  loss = part.loss;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.set_grad(part.gradients[i]);
}

void StepGraph::launch(Part& part) {
  ledger_.replay(part.marks, *part.graph);
  throw_if_error(device_.launch(*part.graph, engine::engine_stream(device_)));
  counters_.add(part.counts);
}

void StepGraph::run(const BatchInput& input, int64_t micro, Tensor& loss, const Work& work) {
  run_batch(input, static_cast<size_t>(micro), loss, work);
  if (micro + 1 == batches_) end_step();
}

void StepGraph::run_batch(const BatchInput& input, size_t micro, Tensor& loss, const Work& work) {
  if (!reason_.empty() || phase_ == Phase::kFirst) return work(input);
  const bool fits_in = input.total_weight > 0 && fits(input);
  if (is_whole_ && !fits_in && phase_ == Phase::kLaunch && micro > 0) put_back(parts_[micro - 1], loss);
  is_whole_ = is_whole_ && fits_in;
  if (!is_whole_) return work(input);
  take(input);
  if (phase_ == Phase::kPooled) {
    const engine::BlockPool::Use use(pool_);
    return work(input_);
  }
  if (phase_ == Phase::kCapture && !capture(loss, work)) return work(input);
  launch(parts_[micro]);
  if (phase_ == Phase::kLaunch) loss = parts_[micro].loss;
}

// Graphs of a step know each other's addresses: they are captured in one step, or none is kept.
void StepGraph::end_step() {
  if (phase_ == Phase::kFirst) {
    phase_ = Phase::kPooled;
  } else if (is_whole_ && phase_ != Phase::kLaunch) {
    phase_ = phase_ == Phase::kPooled ? Phase::kCapture : Phase::kLaunch;
  }
  if (phase_ != Phase::kLaunch && !parts_.empty()) {
    engine::synchronize(device_);  // they may be under way
    parts_.clear();
  }
  is_whole_ = true;
}

}  // namespace dlpipe::run
