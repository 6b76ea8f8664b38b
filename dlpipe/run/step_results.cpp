#include "dlpipe/run/step_results.h"

#include "dlpipe/engine/device_memory.h"

namespace dlpipe::run {

StepResults::StepResults(Device& device)
    : device_(device),
      memory_(value_or_throw(Buffer::allocate(device, kDepth * sizeof(Entry), Buffer::Memory::kPinned))),
      ledger_(device, kDepth) {
  for (auto& event : over_) event = value_or_throw(device.create_event());
}

StepResults::~StepResults() {
  if (pending() > 0) (void)device_.synchronize(over(pushed_ - 1));
}

void StepResults::push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags) {
  Entry& to = entry(pushed_);
  to = {0, 0};
  Stream& stream = engine::engine_stream(device_);
  if (loss.defined()) {
    throw_if_error(device_.copy_async(&to.loss, loss.raw(), sizeof to.loss, CopyKind::kDeviceToHost, stream));
  }
  if (flags.found_inf != nullptr) {
    throw_if_error(device_.copy_async(&to.found_inf, flags.found_inf, sizeof to.found_inf,
                                      CopyKind::kDeviceToHost, stream));
  }
  ledger_.end_step(Span::kOptimizer);
  throw_if_error(device_.record(over(pushed_), stream));
  ++pushed_;
}

bool StepResults::is_ready() const {
  return pending() > 0 && value_or_throw(device_.is_complete(over(popped_)));
}

StepResults::Result StepResults::pop() {
  throw_if_error(device_.synchronize(over(popped_)));
  ledger_.take_step();
  const Entry& found = entry(popped_++);
  return {found.loss, found.found_inf == 0};
}

}  // namespace dlpipe::run
