#include "dlpipe/run/step_results.h"

#include "dlpipe/engine/device_memory.h"

namespace dlpipe::run {

StepResults::StepResults(Device& device)
    : device_(device),
      memory_(value_or_throw(Buffer::allocate(device, kDepth * sizeof(Entry), Buffer::Memory::kPinned))) {
  for (auto& event : over_) event = value_or_throw(device.create_timed_event());
  for (auto& event : ready_) event = value_or_throw(device.create_timed_event());
}

StepResults::~StepResults() {
  if (pending() > 0) (void)device_.synchronize(*over_[static_cast<size_t>(pushed_ - 1) % kEvents]);
}

void StepResults::mark_ready() {
  if (pending() == 0) first_in_row_ = pushed_;
  throw_if_error(
      device_.record(*ready_[static_cast<size_t>(pushed_) % kEvents], engine::engine_stream(device_)));
  marked_ = pushed_;
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
  throw_if_error(device_.record(*over_[static_cast<size_t>(pushed_) % kEvents], stream));
  ++pushed_;
}

void StepResults::add_times(int64_t number) {
  if (number == first_in_row_ || number > marked_ || marked_ < 0) return;
  const auto at = static_cast<size_t>(number);
  const Event& ready = *ready_[at % kEvents];
  times_.waited_s += value_or_throw(device_.seconds_between(*over_[(at - 1) % kEvents], ready));
  times_.worked_s += value_or_throw(device_.seconds_between(ready, *over_[at % kEvents]));
  ++times_.steps;
}

bool StepResults::is_ready() const {
  return pending() > 0 && value_or_throw(device_.is_complete(*over_[static_cast<size_t>(popped_) % kEvents]));
}

StepResults::Result StepResults::pop() {
  throw_if_error(device_.synchronize(*over_[static_cast<size_t>(popped_) % kEvents]));
  add_times(popped_);
  const Entry& found = entry(popped_++);
  return {found.loss, found.found_inf == 0};
}

}  // namespace dlpipe::run
