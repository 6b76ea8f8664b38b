// What the optimizers here share: each element's update depends on that element's weight, gradient and state
// alone (parameters taken whole, like muon's matrices, excepted). An optimizer of this kind is a formula over
// a run of elements; slicing, threads, state tensors, state dict and checks are here.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/optim/flat_groups.h"
#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

/// One of the tensors that an optimizer keeps for a parameter.
struct StateForm {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
  int64_t block = 1;  // so many elements of the parameter share one of the state; a divisor of 16,384
};
/// What an optimizer keeps for a parameter of this shape.
using StateForms = std::function<std::vector<StateForm>(const Shape& parameter)>;
/// An f32 of each name for every element.
StateForms a_float_each(std::vector<std::string> names);

/// A run of elements of one parameter, with their gradients and state.
struct ElementRun {
  static constexpr int kMaxStates = 4;
  float* weights = nullptr;
  const float* gradients = nullptr;
  std::array<void*, kMaxStates> states{};  // where the run's share begins; zeros before the first step
  int64_t count = 0;
  uint32_t key = 0;          // another one for every run
  float lr_scale = 1.0f;     // factor on this parameter's learning rate
  float decay_scale = 1.0f;  // and on its weight decay; 0 where it has none

  template <class T = float>
  T* state(size_t i) const {
    return static_cast<T*>(states[i]);
  }
};

class ElementwiseOptimizer : public Optimizer {
 public:
  void step(double lr) final;
  void set_rate_on_device(double lr) final;
  DeviceStepFlags step_on_device(const DeviceStep& step) final;
  void keep(const std::vector<Share>& shares) final;
  void step_shares(double lr, std::span<const Tensor> gradients) final;
  std::vector<NamedTensor> state() const final;
  void load_state(const std::vector<NamedTensor>& state) final;
  int64_t steps() const final { return flat_ != nullptr ? flat_->steps() : steps_; }

 protected:
  /// At most ElementRun::kMaxStates states per parameter. Those for which `whole` answers yes go to
  /// update_whole.
  ElementwiseOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
                       const StateForms& states,
                       const std::function<bool(const NamedTensor&)>& whole = nullptr);
  /// Called once before the updates of a step; `step` counts from 1.
  virtual void begin_step(double lr, int64_t step) = 0;
  /// Called for many runs at once, from many threads.
  virtual void update(const ElementRun& run) const = 0;
  /// Called for each parameter that was named as one to be taken whole, on the caller's thread: `run` is all
  /// of it, `rows` its first axis.
  virtual void update_whole(const ElementRun& run, int64_t rows) const { (void)run, (void)rows; }
  /// update_whole on a device.
  virtual void update_whole_on_device(const FlatGroups::Whole& whole) const { (void)whole; }
  /// The update of a flat group on a device; only called where the optimizer's record says `on_device`.
  virtual void update_flat(const FlatGroups::Part& part) const;
  /// Yes: on a device, parameters taken whole lie in flat groups with the others, and update_flat finds each in
  /// part.segments.
  virtual bool takes_segments() const { return false; }

 private:
  struct Slot {
    NamedTensor parameter;
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    bool whole = false;
    std::optional<Share> share = {};  // none: all of it
    std::vector<StateForm> forms = {};
    std::vector<Tensor> states = {};  // empty before the first gradient

    int64_t begin() const { return share ? share->begin : 0; }
    /// What a state tensor is here.
    Shape state_shape(const StateForm& form) const;
  };
  /// A state that is being loaded, and what of it has come: elements [first, second) of the whole state, in any order.
  struct Loading {
    Tensor tensor;
    std::vector<std::pair<int64_t, int64_t>> parts;
    int64_t elements() const;
  };
  static void load_entry(const Slot& slot, const StateForm& form, const NamedTensor& entry,
                         std::optional<int64_t> begin_element, Loading* loading);
  FlatGroups& flat();
  /// A step with these gradients, one for each slot; whole ones, or those of the slots' shares.
  void step_with(double lr, std::span<const Tensor> gradients, bool are_shares);
  /// `gradients` begins with that of the element `first`.
  static void append_runs(Slot& slot, const float* gradients, int64_t first, int64_t run_length,
                          std::vector<ElementRun>* runs, uint32_t* key);

  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  std::unique_ptr<FlatGroups> flat_;  // where the parameters are on a device: made by the first step
  std::vector<size_t> flat_slots_;    // the slots that are in it
};

/// Error (kMisuse, "[optimizer] ...") unless `valid`.
void check_optimizer_argument(bool valid, const char* optimizer, const char* argument, double value,
                              const char* expected);

}  // namespace dlpipe::engine
