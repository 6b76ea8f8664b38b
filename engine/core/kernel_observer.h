// Who is told of what runs below `apply`: every kernel, forward and backward, every copy that makes a tensor contiguous,
// every gradient that arrives at a leaf. engine/replay records a training step so.
//
// One at a time per thread. Where there is none, a kernel pays one thread-local load. What a kernel or a hook does by
// itself is a part of it and not told of.
#pragma once

#include <string>

#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  /// After a kernel ran; `args` as it left them.
  virtual void on_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args) = 0;
  virtual void on_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args) = 0;
  /// `to` is now a plain, contiguous copy of `from`.
  virtual void on_copy(const Tensor& to, const Tensor& from) = 0;
  /// Before a leaf takes a gradient, in the leaf's form.
  virtual void on_gradient(const Tensor& leaf, const Tensor& grad) = 0;
  /// Before the host looks at a tensor's values, or writes them.
  virtual void on_values(const Tensor& tensor) = 0;
  /// Something is done that no kernel does; `reason` names it.
  virtual void on_refusal(const std::string& reason) = 0;
};

namespace thread_state {
KernelObserver*& kernel_observer();
}

/// While one lives, this thread's kernels are told to the one given (null: nobody).
using UseKernelObserver = ScopedValue<thread_state::kernel_observer>;

/// Tells who observes that what this thread does can't be repeated by running its kernels again.
void refuse_recording(const std::string& reason);

}  // namespace dlpipe::engine
