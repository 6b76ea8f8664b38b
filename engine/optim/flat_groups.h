// An optimizer's parameters on a device in the form that core/flat_steps.h needs. Parameters with the same
// factors are contiguous in one block, and so are their gradients and states. So a step is a few kernels for
// any number of tensors. Internal to engine/optim; one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dlpipe/optim.h"
#include "engine/core/flat_steps.h"

namespace dlpipe::engine {

/// A view of `flat` [N] as `shape`, beginning at element `offset`.
Tensor share_of(const Tensor& flat, int64_t offset, const Shape& shape);

/// One group of tensors that share their factors.
struct FlatPart {
  const cuda::FlatSteps& code;
  const cuda::FlatGroup& flat;
  const cuda::StepScalars& scalars;
  const cuda::Segments& segments;  // empty unless they were requested
  float lr_scale, decay_scale;
};

/// A member that is updated whole: its tensors in the parameter's shape, and scalars as f32 [1]. The update must
/// not change anything if found_inf is set.
struct FlatWhole {
  Tensor weights, gradients, state;
  Tensor lr, grad_scale;
  const cuda::FlatSteps& code;
  const int* found_inf;
  float lr_scale, decay_scale;
};

class FlatGroups {
 public:
  struct Member {
    NamedTensor parameter;
    float lr_scale = 1.0f;
    float decay_scale = 1.0f;
    bool whole = false;  // has its own flat group, for a rule that reads the whole tensor
  };
  /// Moves the parameters' memory into flat groups. Each group gets `states` (at most two) states of zeros, f32 per
  /// element. With `segments`, flat groups have the offsets of their tensors.
  FlatGroups(Device& device, std::vector<Member> members, int states, bool segments);

  /// What the optimizer's rule does with one group.
  using Update = std::function<void(const FlatPart& part)>;
  using WholeUpdate = std::function<void(const FlatWhole& whole)>;
  void set_rate(double lr);
  /// Does a step with the parameters' gradients. Without any, only counts the step. Throws if only some have one.
  DeviceStepFlags step(const DeviceStep& step, const Update& update, const WholeUpdate& whole);

  /// A view of a state of a member.
  Tensor state(size_t member, int state) const;
  /// Waits for the device.
  int64_t steps() const;
  /// Also lets steps change weights again after one that halted.
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
    int64_t whole = -1;  // the member, if it is in its own flat group
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
  /// Finds the segments of groups[index]; a gap after a tensor belongs to that tensor.
  void find_segments(size_t index);
  bool gather_gradients();
  Scalars scalars() const;
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
