#include "dlpipe/run/train/step/step_results.h"

#include "dlpipe/engine/core/device_memory.h"

namespace dlpipe::run {

StepResults::StepResults(Device& device)
    : device_(device),
      memory_(value_or_throw(Buffer::allocate(device, kDepth * sizeof(Result), Buffer::Memory::kPinned))),
      ledger_(device, kDepth) {
  for (auto& event : over_) event = value_or_throw(device.create_event());
}

StepResults::~StepResults() {
  if (pending() > 0) (void)device_.synchronize(over(pushed_ - 1));
}

void StepResults::push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags) {
  Result& to = entry(pushed_);
  to = {};
  Stream& stream = engine::engine_stream(device_);
  const auto fetch = [&]<class T>(T& value, const void* from) {
    if (from != nullptr)
      throw_if_error(device_.copy_async(&value, from, sizeof value, CopyKind::kDeviceToHost, stream));
  };
  fetch(to.loss, loss.defined() ? loss.raw() : nullptr);
  fetch(to.found_inf, flags.found_inf);
  fetch(to.loss_scale, flags.loss_scale);
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
  return entry(popped_++);
}

}  // namespace dlpipe::run
