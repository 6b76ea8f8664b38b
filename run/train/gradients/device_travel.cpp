#include "dlpipe/run/train/gradients/device_travel.h"

#include <chrono>
#include <thread>

#include "dlpipe/base/ledger.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_memory.h"

namespace dlpipe::run {

using Clock = std::chrono::steady_clock;

DeviceTravel::DeviceTravel(Device& device, engine::DeviceSums& sums, double timeout_s)
    : device_(device),
      sums_(sums),
      timeout_s_(timeout_s),
      stream_(value_or_throw(device.create_stream())),
      full_(value_or_throw(device.create_event())),
      summed_(value_or_throw(device.create_event())) {}

DeviceTravel::~DeviceTravel() {
  if (!under_way_) return;
  sums_.abort();
  (void)device_.synchronize(*stream_);
}

void DeviceTravel::leave(const engine::Tensor& values) {
  throw_if_error(device_.record(*full_, engine::engine_stream(device_)));
  throw_if_error(device_.wait(*stream_, *full_));
  under_way_ = true;
  throw_if_error(sums_.all_reduce(values.data<float>(), static_cast<size_t>(values.elements()), *stream_));
}

// The host looks, as a rank that is gone would have it wait for ever.
void DeviceTravel::arrive(const std::string& what) {
  if (!under_way_) return;
  const SpanScope span(Span::kCollective);
  throw_if_error(device_.record(*summed_, *stream_));
  const auto begin = Clock::now();
  while (!value_or_throw(device_.is_complete(*summed_))) {
    throw_if_error(sums_.check());
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= timeout_s_)
      throw Error(Status(ErrorCode::kIo, concat("[train] a rank has not answered for ", timeout_s_,
                                                " s (--peer-timeout), waited for ", what,
                                                "; see what it printed last, and go on with --resume")));
    std::this_thread::yield();
  }
  throw_if_error(sums_.check());  // what ended by an error has no sums
  throw_if_error(device_.wait(engine::engine_stream(device_), *summed_));
  under_way_ = false;
}

}  // namespace dlpipe::run
