// Observers of a thread's ops, for captures, recordings and profiles.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

// Called for every op that a thread calls, and for every read of a tensor's values outside of an op.
// engine/graph uses it to capture calls.
//
// One per thread. Without an observer, an op costs one thread-local load. Conversions that `apply` itself
// does before a kernel (cast, reorder) are part of the call and not reported.

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Before a call: whether its values are needed. If not, no kernel runs, and the outputs are uninitialised memory.
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

/// While an object lives, this thread's calls are reported to the given observer (null: none).
using UseCallObserver = ScopedValue<thread_state::call_observer>;

// Called for what runs below `apply`: every forward kernel, and every copy that makes a tensor contiguous. The graph's
// runner uses it to count the cost of layouts (graph/run.h).
//
// One per thread. Without an observer, a kernel costs one thread-local load. What a kernel or a hook does internally
// is not reported.

class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  /// After a kernel ran; `args` as it left them.
  virtual void on_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args) = 0;
  /// After a copy: `to` is a plain, contiguous copy of `from`.
  virtual void on_copy(const Tensor& to, const Tensor& from) = 0;
};

namespace thread_state {
KernelObserver*& kernel_observer();
}

/// While an object lives, this thread's kernels are reported to the given observer (null: none).
using UseKernelObserver = ScopedValue<thread_state::kernel_observer>;

// The time of a step by op, as printed by `bench train --explain`.
//
// While an OpProfile lives, its thread's ops (forward, and backward on the same thread) are timed.
// One per thread. Without a profile, an op costs one thread-local load.

/// All calls of one op with the same shapes, in one direction.
struct OpCost {
  std::string op;
  std::string inputs;  // shapes of the inputs, "[32,56,56,64] [64,64,3,3]"
  bool backward = false;
  std::string kernel;  // its name, why a slower one was used, and what it fused: "with relu"
  int64_t calls = 0;
  int64_t ns = 0;
  double flops = 0;  // 0 if the op's record doesn't count them
  double bytes = 0;  // of inputs, outputs and gradients, each once
};

class OpProfile {
 public:
  OpProfile();
  ~OpProfile();
  OpProfile(const OpProfile&) = delete;
  OpProfile& operator=(const OpProfile&) = delete;

  /// The calling thread's, or null.
  static OpProfile* current();

  void add_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args, int64_t ns);
  void add_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args, int64_t ns);

  /// The most expensive first.
  std::vector<OpCost> costs() const;

 private:
  OpCost& cost_of(const OpRecord& record, const Kernels& kernels, std::span<const TensorSpec> inputs,
                  const Attrs& attrs, bool backward);

  std::map<std::string, OpCost> costs_;
  OpProfile* former_;
};

}  // namespace dlpipe::engine
