// Buckets of gradients that GPUs sum among themselves (engine/collective/device_sums.h): on a stream of their own, behind what was
// asked for when a bucket was full, while the rest of backward goes on. Refers to the device and the sums. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/collective/device_sums.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::run {

class DeviceTravel {
 public:
  DeviceTravel(Device& device, engine::DeviceSums& sums, double timeout_s);
  ~DeviceTravel();  // ends what is under way

  /// `values`, f32, as they are when what was asked for so far is done, begin to become their sums over all ranks.
  void leave(const engine::Tensor& values);
  /// What is asked for from now on finds the sums of all that left. Waits for them; `what` is for the error where a rank doesn't
  /// answer.
  void arrive(const std::string& what);

 private:
  Device& device_;
  engine::DeviceSums& sums_;
  const double timeout_s_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> full_;  // each waits for its record of then
  std::unique_ptr<Event> summed_;
  bool under_way_ = false;
};

}  // namespace dlpipe::run
