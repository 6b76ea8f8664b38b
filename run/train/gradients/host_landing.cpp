#include "dlpipe/run/train/gradients/host_landing.h"

#include "dlpipe/engine/core/device_memory.h"

namespace dlpipe::run {

HostLanding::~HostLanding() {
  if (copied_ != nullptr) (void)memory_.device()->synchronize(*copied_);
}

void HostLanding::fetch(const engine::Tensor& from) {
  from_ = from;
  Device& device = from.device();
  if (device.is_host()) return;
  if (copied_ == nullptr) copied_ = value_or_throw(device.create_event());
  if (memory_.size_bytes() < from.size_bytes())
    memory_ = value_or_throw(Buffer::allocate(device, from.size_bytes(), Buffer::Memory::kPinned));
  Stream& stream = engine::engine_stream(device);
  throw_if_error(
      device.copy_async(memory_.data(), from.raw(), from.size_bytes(), CopyKind::kDeviceToHost, stream));
  throw_if_error(device.record(*copied_, stream));
}

bool HostLanding::is_there() const {
  return copied_ == nullptr || value_or_throw(memory_.device()->is_complete(*copied_));
}

std::span<float> HostLanding::values() {
  const auto count = static_cast<size_t>(from_.elements());
  if (copied_ == nullptr) return {from_.data<float>(), count};
  throw_if_error(memory_.device()->synchronize(*copied_));
  return {reinterpret_cast<float*>(memory_.data()), count};
}

void HostLanding::put_back() {
  if (copied_ != nullptr && from_.defined()) {
    Device& device = *memory_.device();
    Stream& stream = engine::engine_stream(device);
    throw_if_error(
        device.copy_async(from_.raw(), memory_.data(), from_.size_bytes(), CopyKind::kHostToDevice, stream));
    throw_if_error(device.record(*copied_, stream));
  }
  from_ = engine::Tensor();
}

}  // namespace dlpipe::run
