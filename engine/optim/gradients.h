// Gradients before a step: sums of squares by share, scaling by a norm, and the loss scale of f16. (Share, grad_norm and
// clip_grad_norm: dlpipe/optim.h.)
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/module.h"
#include "dlpipe/optim.h"
#include "dlpipe/tensor.h"
#include "engine/core/flat_steps.h"
#include "engine/core/isa.h"

namespace dlpipe::engine {

// A sum with an order that doesn't depend on threads or instruction sets. For bodies of cpu::on_best_isa() and for
// plain loops. Internal to engine/optim.

/// Sum of value(i), i < count, in eight running sums, so that the compiler can use vectors without changing any
/// bit.
template <class Value>
DLPIPE_INLINE inline double lane_sum(int64_t count, const Value& value) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[static_cast<size_t>(lane)] += double{value(i + lane)};
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[static_cast<size_t>(lane)] += double{value(i)};
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

// The global norm of all gradients, and scaling by it. One thread; parallel internally.

/// The gradients of a process that only has those of its shares: a flat tensor per parameter; undefined if there is none.
struct OwnGradients {
  std::span<const NamedTensor> parameters;
  std::span<const Share> shares;
  std::span<const Tensor> gradients;
};
/// Partial sums of squares, one for every kShareUnit elements of each parameter; 0 outside of the shares. Their sum over all
/// processes covers all gradients.
std::vector<double> grad_squares(const OwnGradients& own);
/// The norm of gradients with these partial sums.
double norm_of_squares(std::span<const double> squares);
/// Clips like clip_grad_norm, with a known norm.
void clip_to_norm(const OwnGradients& own, double max_norm, double norm);

/// The same for gradients that may be parts of larger ones.
void clip_to_norm(std::span<const NamedTensor> parameters, double max_norm, double norm);

// Loss scaling for training in f16, which ranges from 2^-24 to 65504 (Micikevicius et al., "Mixed precision
// training", 2018): backward starts from the scale instead of 1, the optimizer divides by it, and a step with
// gradients that aren't finite only changes the scale. Values and rules are those of PyTorch's
// torch.amp.GradScaler: the scale is 65536 at first, is halved after each such step, and doubled after 2000
// steps without one.
//
// The state is updated on the device (core/flat_steps.h, LossScale), so that the host never waits for it and
// a captured step uses the current value. One thread.

class GradScaler {
 public:
  struct State {
    float scale = 65536.0f;
    int32_t good_steps = 0;  // since the scale last changed: PyTorch's growth tracker
  };

  explicit GradScaler(Device& device);

  /// The seed gradient for a loss of this shape (one element): the scale, f32, read when the work runs. It refers
  /// to the scaler's memory.
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
