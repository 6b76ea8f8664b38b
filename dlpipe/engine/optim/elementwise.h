// What the optimizers here share: each element's update depends on that element's weight, gradient and state
// alone. An optimizer of this kind is a formula over a run of elements; slicing, threads, state tensors,
// state dict and checks are here.
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
  bool decays = true;     // whether weight decay applies to this parameter
  float lr_scale = 1.0f;  // factor on this parameter's learning rate
};

class ElementwiseOptimizer : public Optimizer {
 public:
  void step(double lr) final;
  std::vector<NamedTensor> state() const final;
  void load_state(const std::vector<NamedTensor>& state) final;
  int64_t steps() const final { return steps_; }

 protected:
  /// `state_names`: at most ElementRun::kMaxStates, e.g. {"momentum"}.
  ElementwiseOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
                       std::vector<std::string> state_names);
  /// Called once before the updates of a step; `step` counts from 1.
  virtual void begin_step(double lr, int64_t step) = 0;
  /// Called for many runs at once, from many threads.
  virtual void update(const ElementRun& run) const = 0;

 private:
  struct Slot {
    NamedTensor parameter;
    bool decays = true;
    float lr_scale = 1.0f;
    std::vector<Tensor> states;  // empty before the first gradient
  };
  void append_runs(Slot& slot, std::vector<ElementRun>* runs);

  std::vector<Slot> slots_;
  std::vector<std::string> state_names_;
  int64_t steps_ = 0;
};

/// Error (kMisuse, "[optimizer] ...") unless `valid`.
void check_optimizer_argument(bool valid, const char* optimizer, const char* argument, double value,
                              const char* expected);

}  // namespace dlpipe::engine
