// sum and mean on CUDA.
#pragma once

#include "dlpipe/engine/cuda/loops/binary.h"
#include "dlpipe/engine/ops/reduction.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline float reduction_factor(const Shape& shape, uint32_t axes, bool mean) {
  return static_cast<float>(mean ? 1.0 / reduction_count(shape, axes) : 1.0);
}

template <bool kMean>
void reduce_forward(const ForwardArgs& args) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& x = args.inputs[0];
  stored(x.dtype(), [&](auto type) {
    using T = decltype(type);
    sum_axes<T, T>(x, axes, reduction_factor(x.shape(), axes, kMean), args.outputs[0]);
  });
}

template <bool kMean>
void reduce_backward(const BackwardArgs& args) {
  const uint32_t axes = args.attrs.as<ReductionAttrs>().axes;
  const Tensor& grad_x = args.grad_inputs[0];
  const Shape kept = kept_shape(grad_x.shape(), axes);
  const Tensor grad = args.grad_outputs[0].view_as(kept, row_major(kept), 0);
  stored(grad_x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_stretched<T, T>(grad_x.shape(), {grad}, grad_x,
                           Times{reduction_factor(grad_x.shape(), axes, kMean)});
  });
}

template <bool kMean>
constexpr Kernels reduction_kernels() {
  return {reduce_forward<kMean>, reduce_backward<kMean>, supports_stored};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
