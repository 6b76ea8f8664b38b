// sum and mean on the CPU: reduce_sum (loops/formula.h) forward, a broadcast copy backward.
#include "engine/ops/reductions.h"

#include "engine/cpu/loops/formula.h"

namespace dlpipe::engine::cpu {

static double reduction_factor(const Shape& shape, uint32_t axes, bool mean) {
  return mean ? 1.0 / reduction_count(shape, axes) : 1.0;
}

static void reduce(const ForwardArgs& args, bool mean) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& x = args.inputs[0];
  reduce_sum(x, axes, reduction_factor(x.shape(), axes, mean), args.outputs[0]);
}

static void expand(const BackwardArgs& args, bool mean) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& grad_x = args.grad_inputs[0];
  const Shape kept = kept_shape(grad_x.shape(), axes);
  const auto factor = static_cast<float>(reduction_factor(grad_x.shape(), axes, mean));
  stored(grad_x.dtype(), [&]<class T>(T*) {
    const T* grad = static_cast<const T*>(args.grad_outputs[0].raw());
    broadcast_loop(grad_x.shape(), kept, kept, grad, grad, static_cast<T*>(grad_x.raw()),
                   [factor](float g, float, int64_t) DLPIPE_INLINE { return g * factor; });
  });
}

}  // namespace dlpipe::engine::cpu

namespace dlpipe::engine {

extern const Kernels sum_cpu;
const Kernels sum_cpu = {
    .forward = [](const ForwardArgs& args) { cpu::reduce(args, false); },
    .backward = [](const BackwardArgs& args) { cpu::expand(args, false); },
    .supports = cpu::supports_f32_bf16,
};

extern const Kernels mean_cpu;
const Kernels mean_cpu = {
    .forward = [](const ForwardArgs& args) { cpu::reduce(args, true); },
    .backward = [](const BackwardArgs& args) { cpu::expand(args, true); },
    .supports = cpu::supports_f32_bf16,
};

}  // namespace dlpipe::engine
