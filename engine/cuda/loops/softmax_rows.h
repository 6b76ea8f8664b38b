// softmax and log_softmax along the last axis on CUDA: one block per row. What tells them apart is a Rule with static
// functions.
#pragma once

#include <concepts>

#include "dlpipe/engine/cuda/loops/rows.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/softmax.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

template <class Rule>
concept SoftmaxLike = requires(float x) {
  { Rule::kName } -> std::convertible_to<const char*>;
  { Rule::kGradientName } -> std::convertible_to<const char*>;
  { Rule::norm(x) } -> std::same_as<float>;            // sum: what a row keeps of its sum of exponentials
  { Rule::value(x, x) } -> std::same_as<float>;        // shifted, norm: of x less the row's largest
  { Rule::term(x, x) } -> std::same_as<float>;         // y, grad: of the sum that backward needs
  { Rule::gradient(x, x, x) } -> std::same_as<float>;  // y, grad, sum: of that sum
};

template <SoftmaxLike Rule>
struct SoftmaxRows {
  static constexpr const char* kName = Rule::kName;
  static constexpr int kThreads = kRowThreads;
  using Shared = ReduceSpace<float, kThreads>;
  const float* x;
  float* y;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* from = x + block.index() * columns;
    float* to = y + block.index() * columns;
    const ExpSum e = reduce_exponentials(block, shared, columns, [&](int64_t i) { return from[i]; });
    const float norm = Rule::norm(e.sum);
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads) to[i] = Rule::value(from[i] - e.largest, norm);
    });
  }
};

template <SoftmaxLike Rule>
struct SoftmaxGradientRows {
  static constexpr const char* kName = Rule::kGradientName;
  static constexpr int kThreads = kRowThreads;
  using Shared = ReduceSpace<float, kThreads>;
  const float* y;
  const float* grad_y;
  float* grad_x;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const float* out = y + block.index() * columns;
    const float* grad = grad_y + block.index() * columns;
    float* to = grad_x + block.index() * columns;
    const float sum = reduce_row(block, shared, columns, 0.0f, Add(),
                                 [&](int64_t i) { return Rule::term(out[i], grad[i]); });
    block.each([&](int thread) {
      for (int64_t i = thread; i < columns; i += kThreads) to[i] = Rule::gradient(out[i], grad[i], sum);
    });
  }
};

template <SoftmaxLike Rule>
void softmax_forward(const ForwardArgs& args) {
  const AxisSplit s(args.inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  launch(SoftmaxRows<Rule>{args.inputs[0].data<float>(), args.outputs[0].data<float>(), s.count}, s.outer);
}

template <SoftmaxLike Rule>
void softmax_backward(const BackwardArgs& args) {
  const AxisSplit s(args.grad_inputs[0].shape(), args.attrs.as<SoftmaxAttrs>().axis);
  launch(SoftmaxGradientRows<Rule>{args.outputs[0].data<float>(), args.grad_outputs[0].data<float>(),
                                   args.grad_inputs[0].data<float>(), s.count},
         s.outer);
}

/// The last axis, where rows lie together.
inline bool supports_softmax(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return inputs[0].dtype == DType::kF32 && attrs.as<SoftmaxAttrs>().axis == inputs[0].shape.rank() - 1;
}

template <SoftmaxLike Rule>
constexpr Kernels softmax_kernels() {
  return {softmax_forward<Rule>, softmax_backward<Rule>, supports_softmax};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
