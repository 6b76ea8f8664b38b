// Who is told of every op that a thread calls, and of every look at a tensor's values from outside an op:
// engine/graph captures calls so.
//
// One at a time per thread. Where there is none, an op pays one thread-local load. The conversions that `apply`
// itself puts before a kernel (cast, reorder) are parts of the call and not told of.
#pragma once

#include <span>

#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Before a call: whether its values matter. Where they don't, no kernel runs, and the outputs are memory that nobody wrote to.
  /// `outputs`: their shapes and dtypes. May throw.
  virtual bool wants_values(const OpRow& row, std::span<const Tensor> inputs,
                            std::span<const TensorSpec> outputs) {
    (void)row, (void)inputs, (void)outputs;
    return true;
  }
  /// After a call: the inputs as the caller gave them (an absent optional one is undefined) and the visible
  /// outputs.
  virtual void on_call(const OpRow& row, std::span<const Tensor> inputs, const Attrs& attrs,
                       std::span<const Tensor> outputs) = 0;
  /// Before data(), item(), to_doubles() or a copy of a tensor outside an op.
  virtual void on_read(const Tensor& tensor) = 0;
};

namespace thread_state {
CallObserver*& call_observer();
}

/// While one lives, this thread's calls are told to the one given (null: nobody).
using UseCallObserver = ScopedValue<thread_state::call_observer>;

}  // namespace dlpipe::engine
