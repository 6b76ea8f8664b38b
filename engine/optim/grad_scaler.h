// Loss scaling for training in f16, whose numbers end at 65504 and begin at 2^-24 (Micikevicius et al.,
// "Mixed precision training", 2018): backward starts from the scale instead of 1, the optimizer divides by
// it, and a step whose gradients aren't finite changes nothing but the scale. Values and rules are those of
// PyTorch's torch.amp.GradScaler: 65536 at first, half after each such step, twice as much after 2000 steps
// without one.
//
// The state is on the device and moves there (core/flat_steps.h, LossScale), so that nothing waits for it
// and a captured step goes on with it. One thread.
#pragma once

#include <cstdint>

#include "dlpipe/engine/core/flat_steps.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

class GradScaler {
 public:
  struct State {
    float scale = 65536.0f;
    int32_t good_steps = 0;  // since the scale last changed: PyTorch's growth tracker
  };

  explicit GradScaler(Device& device);

  /// The gradient that a loss of this shape, one element, starts backward from: the scale, f32, as it is when
  /// the work reads it. It refers to the scaler.
  Tensor seed(const Shape& shape) const;
  cuda::LossScale loss_scale() const;

  /// Both wait for the device.
  State state() const;
  void set_state(const State& state);

 private:
  struct Memory {
    float scale;
    float inverse;
    int32_t good_steps;
  };
  Memory* memory() const { return static_cast<Memory*>(memory_.raw()); }

  Device& device_;
  Tensor memory_;  // u8, holds Memory
};

}  // namespace dlpipe::engine
