// A recorded pass that runs again: a loop over its kernels, on tensors whose places are known. No shape rules, no choice
// of dtypes and layouts, no graph, and but for what kernels want themselves no allocation: everything that the pass
// computes lies in one arena (arena_plan.h). Kernels are those of the recording, with its attributes, so bits are
// those of the pass.
//
// Owns the arena from its first run on; gradients that leaves take lie there too, and are moved out when they are still
// wanted at the next run. Holds the weights and constants of the recording; ops of a program's own outlive it. One thread,
// the one of the recording.
// Cost of a run: its kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/engine/replay/recording.h"

namespace dlpipe::engine::replay {

class Replay {
 public:
  /// `recording` has ended and refuses nothing.
  explicit Replay(const Recording& recording);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Inputs of the recording's forms. Answers what the host looks at; valid until run_second_part().
  const Tensor& run_first_part(std::span<const Tensor> inputs);
  /// Leaves get their gradients, as from Tensor::backward.
  void run_second_part();

  /// Until the next run.
  void release_memory() { arena_.reset(); }

  size_t calls() const { return steps_.size(); }
  size_t arena_bytes() const { return arena_bytes_; }

 private:
  /// A call with its tensors.
  struct Step {
    Call call;
    std::vector<Tensor> inputs = {}, outputs = {}, grad_outputs = {}, grad_inputs = {};
    std::vector<Tensor> planned = {};  // grad_inputs again: a kernel may put others in their place
    bool is_own = false;               // kGradient: nobody else uses the memory
  };
  struct Placed {
    TensorImpl* tensor;
    int64_t offset;  // from the beginning of its block
  };

  std::vector<Tensor> tensors_of(const std::vector<ValueId>& ids) const;
  void plan(const Recording& recording);
  void make_tensors(const Recording& recording);
  void make_steps(const Recording& recording);
  /// The block's tensors, when it begins at `base`.
  void bind(size_t block, std::byte* base);
  void bind_arena();
  void bind_inputs(std::span<const Tensor> inputs);
  void run(Step& step);
  void run_backward(Step& step);
  void hand_gradient(Step& step);

  std::vector<Tensor> tensors_;              // by value
  std::vector<std::vector<Placed>> placed_;  // by block
  struct InputBlock {
    size_t input, block;
    int64_t offset;  // of the input in its block
  };
  std::vector<InputBlock> inputs_;
  struct ArenaBlock {
    size_t block, offset;
  };
  std::vector<ArenaBlock> temporaries_;
  struct Changed {
    std::shared_ptr<Storage> memory;
    uint32_t times;
  };
  std::vector<Changed> changed_;
  std::vector<Step> steps_;
  size_t first_part_;
  Tensor answer_;
  size_t arena_bytes_ = 0;
  std::shared_ptr<Storage> arena_;
};

}  // namespace dlpipe::engine::replay
