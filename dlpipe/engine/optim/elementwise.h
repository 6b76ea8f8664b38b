// What the optimizers here share: each element's update depends on that element's weight, gradient and state
// alone (parameters taken whole, like muon's matrices, excepted). An optimizer of this kind is a formula over
// a run of elements; slicing, threads, state tensors, state dict and checks are here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

/// A run of elements of one parameter, with their gradients and state.
struct ElementRun {
  static constexpr int kMaxStates = 2;
  float* weights = nullptr;
  const float* gradients = nullptr;
  std::array<float*, kMaxStates> states{};  // as many as the optimizer named; zero before the first step
  int64_t count = 0;
  float lr_scale = 1.0f;     // factor on this parameter's learning rate
  float decay_scale = 1.0f;  // and on its weight decay; 0 where it has none
};

class ElementwiseOptimizer : public Optimizer {
 public:
  void step(double lr) final;
  std::vector<NamedTensor> state() const final;
  void load_state(const std::vector<NamedTensor>& state) final;
  int64_t steps() const final { return steps_; }

 protected:
  /// `state_names`: at most ElementRun::kMaxStates, e.g. {"momentum"}. Parameters whose names match a glob of
  /// `whole` go to update_whole.
  ElementwiseOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
                       std::vector<std::string> state_names, const std::vector<std::string>& whole = {});
  /// Called once before the updates of a step; `step` counts from 1.
  virtual void begin_step(double lr, int64_t step) = 0;
  /// Called for many runs at once, from many threads.
  virtual void update(const ElementRun& run) const = 0;
  /// Called for each parameter that was named as one to be taken whole, on the caller's thread: `run` is all
  /// of it, `rows` its first axis.
  virtual void update_whole(const ElementRun& run, int64_t rows) const { (void)run, (void)rows; }

 private:
  struct Slot {
    NamedTensor parameter;
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    bool whole = false;
    std::vector<Tensor> states;  // empty before the first gradient
  };
  void append_runs(Slot& slot, int64_t run_length, std::vector<ElementRun>* runs);

  std::vector<Slot> slots_;
  std::vector<std::string> state_names_;
  int64_t steps_ = 0;
};

/// Error (kMisuse, "[optimizer] ...") unless `valid`.
void check_optimizer_argument(bool valid, const char* optimizer, const char* argument, double value,
                              const char* expected);

}  // namespace dlpipe::engine
