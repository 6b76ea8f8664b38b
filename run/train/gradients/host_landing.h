// Values of a device on their way to other processes: page-locked memory of the host, into which they are copied behind what
// the device has been asked for, and from which their sums come back. Nobody waits but who asks for the values.
//
// On the host there is nothing to copy: the values are those of the tensor. Refers to the device. One thread.
#pragma once

#include <memory>
#include <span>

#include "dlpipe/base/buffer.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::run {

class HostLanding {
 public:
  ~HostLanding();  // waits: copies may be under way

  /// The values of `from`, f32, as they are when what was asked for so far is done. They stay as they are until put_back().
  void fetch(const engine::Tensor& from);
  /// Whether they are there.
  bool is_there() const;
  /// Waits for them. They may be changed.
  std::span<float> values();
  /// Into the tensor that they came from; none: nothing is to be done.
  void put_back();

 private:
  engine::Tensor from_;
  Buffer memory_;  // none on the host
  std::unique_ptr<Event> copied_;
};

}  // namespace dlpipe::run
