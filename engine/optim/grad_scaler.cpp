#include "dlpipe/engine/optim/grad_scaler.h"

#include "dlpipe/engine/core/device_memory.h"

namespace dlpipe::engine {

GradScaler::GradScaler(Device& device)
    : device_(device),
      memory_(Tensor::empty({{static_cast<int64_t>(sizeof(Memory))}, DType::kU8, Layout::kPlain}, device)) {
  set_state({});
}

Tensor GradScaler::seed(const Shape& shape) const {
  return Tensor::borrow(&memory()->scale, shape, DType::kF32, device_);
}

cuda::LossScale GradScaler::loss_scale() const {
  cuda::LossScale loss_scale;
  loss_scale.scale = &memory()->scale;
  loss_scale.inverse = &memory()->inverse;
  loss_scale.good_steps = &memory()->good_steps;
  return loss_scale;
}

GradScaler::State GradScaler::state() const {
  Memory values{};
  copy_memory(cpu_device(), &values, device_, memory_.raw(), sizeof values);
  return {values.scale, values.good_steps};
}

void GradScaler::set_state(const State& state) {
  Memory values{state.scale, 1.0f / state.scale, state.good_steps};
  copy_memory(device_, memory_.raw(), cpu_device(), &values, sizeof values);
}

}  // namespace dlpipe::engine
