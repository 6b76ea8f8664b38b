// softmax and log_softmax along the last axis. What tells them apart is a Rule with two static functions of a row, both
// DLPIPE_INLINE.
#pragma once

#include <concepts>

#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/loops/rows.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/softmax.h"

namespace dlpipe::engine::cpu {

template <class Rule>
concept SoftmaxLike = requires(const float* from, float* to, int64_t count, float largest) {
  { Rule::values(from, to, count, largest) } -> std::same_as<void>;  // x, y
  { Rule::gradients(from, from, to, count) } -> std::same_as<void>;  // y, grad_y, grad_x
};

template <SoftmaxLike Rule>
void softmax_forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* x = args.inputs[0].data<float>();
  float* y = args.outputs[0].data<float>();
  parallel_ranges(s.outer, rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + row * s.count;
        Rule::values(from, y + row * s.count, s.count, largest_of(from, s.count));
      }
    });
  });
}

template <SoftmaxLike Rule>
void softmax_backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  const float* y = args.outputs[0].data<float>();
  const float* grad_y = args.grad_outputs[0].data<float>();
  float* grad_x = args.grad_inputs[0].data<float>();
  parallel_ranges(s.outer, rows_per_slice(s.count), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row * s.count;
        Rule::gradients(y + first, grad_y + first, grad_x + first, s.count);
      }
    });
  });
}

template <SoftmaxLike Rule>
constexpr Kernels softmax_kernels() {
  Kernels kernels;
  kernels.forward = softmax_forward<Rule>;
  kernels.backward = softmax_backward<Rule>;
  // The last axis, where rows lie together; others are the reference's.
  kernels.supports = [](std::span<const TensorSpec> inputs, const Attrs& attrs) {
    return inputs[0].dtype == DType::kF32 && attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
  };
  return kernels;
}

}  // namespace dlpipe::engine::cpu
