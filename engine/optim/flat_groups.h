// An optimizer's parameters on a device, as core/flat_steps.h wants them: parameters that share their
// factors lie one after another in one block, and so do their gradients and states, so that a step is a few
// kernels whatever the number of tensors. Internal to engine/optim; one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dlpipe/engine/core/flat_steps.h"
#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

/// A view of `flat` [N] as `shape`, from an element on.
Tensor share_of(const Tensor& flat, int64_t offset, const Shape& shape);

class FlatGroups {
 public:
  struct Member {
    NamedTensor parameter;
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    bool whole = false;  // a flat group of its own, for a rule that looks at all of it
  };
  /// The parameters' memory moves into the flat groups. Each gets `states` (at most two) f32 per element, zeros;
  /// with `segments`, flat groups know where their tensors begin.
  FlatGroups(Device& device, std::vector<Member> members, int states, bool segments);

  /// One group of tensors that share their factors.
  struct Part {
    const cuda::FlatSteps& code;
    const cuda::FlatGroup& flat;
    const cuda::StepScalars& scalars;
    const cuda::Segments& segments;  // none unless they were asked for
    float lr_scale, decay_scale;
  };
  /// What the optimizer's rule does with one.
  using Update = std::function<void(const Part& part)>;
  /// A member taken whole: its tensors in the parameter's shape, scalars as f32 [1]. The update changes
  /// nothing where scalars.found_inf is set.
  struct Whole {
    Tensor weights, gradients, state;
    Tensor lr, grad_scale;
    const cuda::FlatSteps& code;
    const int* found_inf;
    float lr_scale, decay_scale;
  };
  using WholeUpdate = std::function<void(const Whole& whole)>;
  void set_rate(double lr);
  /// Takes the gradients now in the parameters. They all have one, or none has: then only the step counts.
  DeviceStepFlags step(const DeviceStep& step, const Update& update, const WholeUpdate& whole);

  /// A view of a member's share.
  Tensor state(size_t member, int state) const;
  /// Waits for the device.
  int64_t steps() const;
  void set_steps(int64_t steps);

 private:
  struct Scalars {
    int64_t steps;
    float lr;
    float grad_scale;
    float norm;
    int32_t found_inf;
    int32_t halted;
    cuda::AdamCoefficients adam;
  };
  struct Group {
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    int64_t whole = -1;  // the member, where it has a flat group of its own
    int64_t count = 0;   // elements, gaps included
    Tensor weights, gradients;
    std::vector<Tensor> states;
    Tensor offsets, parts, ratios;  // the segments' memory
    cuda::Segments segments;
  };
  struct Place {
    size_t group = 0;
    int64_t offset = 0;
  };
  void place_members(int states);
  /// Of groups[index]; a gap after a tensor is its own.
  void find_segments(size_t index);
  bool gather_gradients();
  void update_whole(const Group& group, const cuda::StepScalars& scalars, const WholeUpdate& update);
  /// The address of a member of Scalars, on the device.
  template <class T>
  T* scalar(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(scalars_.raw()) + offset);
  }

  Device& device_;
  const cuda::FlatSteps& code_;
  std::vector<Member> members_;
  std::vector<Place> places_;  // one per member
  std::vector<Group> groups_;
  Tensor scalars_;  // u8, holds Scalars
  Tensor parts_;    // f64, the partial sums of the gradients' norm
};

}  // namespace dlpipe::engine
