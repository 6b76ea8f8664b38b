// The fast sum and mean: cpu/loops/reduce.h forward, a stretched copy backward.
#pragma once

#include "dlpipe/engine/cpu/loops/binary.h"
#include "dlpipe/engine/ops/reduction.h"

namespace dlpipe::engine::cpu {

inline double reduction_factor(const Shape& shape, uint32_t axes, bool mean) {
  return mean ? 1.0 / reduction_count(shape, axes) : 1.0;
}

inline void reduce(const ForwardArgs& args, bool mean) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& x = args.inputs[0];
  reduce_sum(x, axes, reduction_factor(x.shape(), axes, mean), args.outputs[0]);
}

inline void expand(const BackwardArgs& args, bool mean) {
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
