// Where a step's time goes, op by op: what `bench train --explain` prints.
//
// While an OpProfile lives, ops that its thread runs (forward, and backward on the same thread) are timed.
// One at a time per thread; when none is there, an op pays one thread-local load.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

/// All calls of one op on inputs of one form, in one direction.
struct OpCost {
  std::string op;
  std::string inputs;  // shapes of the inputs, "[32,56,56,64] [64,64,3,3]"
  bool backward = false;
  std::string kernel;  // which one, where a slower one was taken, why, and what it did as well: "with relu"
  int64_t calls = 0;
  int64_t ns = 0;
  double flops = 0;  // 0 where the op's record has no count
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

  /// Dearest first.
  std::vector<OpCost> costs() const;

 private:
  OpCost& cost_of(const OpRecord& record, const Kernels& kernels, std::span<const TensorSpec> inputs,
                  const Attrs& attrs, bool backward);

  std::map<std::string, OpCost> costs_;
  OpProfile* former_;
};

}  // namespace dlpipe::engine
