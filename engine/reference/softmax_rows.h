// softmax and log_softmax along any axis, as plain loops. What tells them apart is a Rule with static functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/softmax.h"
#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine::reference {

/// For numbers of type T.
template <class Rule, class T>
concept SoftmaxLikeOf = requires(T x) {
  {
    Rule::value(x, x)
    } -> std::same_as<T>;  // shifted, sum: of x less the row's largest, their exponentials' sum
  { Rule::term(x, x) } -> std::same_as<T>;         // y, grad: of the sum that backward needs
  { Rule::gradient(x, x, x) } -> std::same_as<T>;  // y, grad, sum: of that sum
};
template <class Rule>
concept SoftmaxLike = SoftmaxLikeOf<Rule, float> && SoftmaxLikeOf<Rule, double>;

/// Calls body(first) with each row's first element; the others follow s.inner apart.
template <class Body>
void each_softmax_row(const AxisSplit& s, const Body& body) {
  for (int64_t row = 0; row < s.outer * s.inner; ++row) {
    body(row / s.inner * s.count * s.inner + row % s.inner);
  }
}

template <SoftmaxLike Rule>
void softmax_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const AxisSplit s(x.shape(), args.attrs.as<SoftmaxAttrs>().axis);
  typed(x.dtype(), [&]<class T>(T) {
    each_softmax_row(s, [&](int64_t first) {
      const T* from = x.data<T>() + first;
      T* to = args.outputs[0].data<T>() + first;
      T largest = from[0];
      for (int64_t i = 1; i < s.count; ++i) largest = std::max(largest, from[i * s.inner]);
      T sum = 0;
      for (int64_t i = 0; i < s.count; ++i) sum += std::exp(from[i * s.inner] - largest);
      for (int64_t i = 0; i < s.count; ++i) to[i * s.inner] = Rule::value(from[i * s.inner] - largest, sum);
    });
  });
}

template <SoftmaxLike Rule>
void softmax_backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const AxisSplit s(grad_x.shape(), args.attrs.as<SoftmaxAttrs>().axis);
  typed(grad_x.dtype(), [&]<class T>(T) {
    each_softmax_row(s, [&](int64_t first) {
      const T* y = args.outputs[0].data<T>() + first;
      const T* grad = args.grad_outputs[0].data<T>() + first;
      T* to = grad_x.data<T>() + first;
      T sum = 0;
      for (int64_t i = 0; i < s.count; ++i) sum += Rule::term(y[i * s.inner], grad[i * s.inner]);
      for (int64_t i = 0; i < s.count; ++i)
        to[i * s.inner] = Rule::gradient(y[i * s.inner], grad[i * s.inner], sum);
    });
  });
}

template <SoftmaxLike Rule>
constexpr Kernels softmax_kernels() {
  Kernels kernels;
  kernels.forward = softmax_forward<Rule>;
  kernels.backward = softmax_backward<Rule>;
  return kernels;
}

}  // namespace dlpipe::engine::reference
