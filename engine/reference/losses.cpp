#include "engine/ops/losses.h"

#include <algorithm>
#include <cmath>
#include <concepts>

#include "engine/ops/shape_ops.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine::reference {

/// A rule for numbers of type T.
template <class Rule, class T>
concept SoftmaxLikeOf = requires(T x) {
  {
    Rule::value(x, x)
    } -> std::same_as<T>;  // shifted (x minus the row's largest), the sum of the row's exponentials
  { Rule::term(x, x) } -> std::same_as<T>;         // y, grad: a term of the sum for backward
  { Rule::gradient(x, x, x) } -> std::same_as<T>;  // y, grad, that sum
};
template <class Rule>
concept SoftmaxLike = SoftmaxLikeOf<Rule, float> && SoftmaxLikeOf<Rule, double>;

/// Calls body(first) with the index of each row's first element. The row's elements are s.inner apart.
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

namespace dlpipe::engine {

namespace {

/// dx = y (dy - sum y dy)
struct SoftmaxRule {
  template <class T>
  static T value(T shifted, T sum) {
    return std::exp(shifted) / sum;
  }
  template <class T>
  static T term(T y, T grad) {
    return y * grad;
  }
  template <class T>
  static T gradient(T y, T grad, T sum) {
    return y * (grad - sum);
  }
};

}  // namespace

extern const Kernels softmax_reference;
constinit const Kernels softmax_reference = reference::softmax_kernels<SoftmaxRule>();

namespace {

/// dx = dy - e^y sum dy
struct LogSoftmaxRule {
  template <class T>
  static T value(T shifted, T sum) {
    return shifted - std::log(sum);
  }
  template <class T>
  static T term(T, T grad) {
    return grad;
  }
  template <class T>
  static T gradient(T y, T grad, T sum) {
    return grad - std::exp(y) * sum;
  }
};

}  // namespace

extern const Kernels log_softmax_reference;
constinit const Kernels log_softmax_reference = reference::softmax_kernels<LogSoftmaxRule>();

namespace {

Tensor weight_of(std::span<const Tensor> inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

void cross_entropy_forward(const ForwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const int64_t classes = logits.size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  double loss = 0;
  for (int64_t row = 0; row < targets.rows; ++row) {
    const auto x = [&](int64_t k) { return reference::element(logits, row * classes + k); };
    double largest = x(0);
    for (int64_t k = 1; k < classes; ++k) largest = std::max(largest, x(k));
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(x(k) - largest);
    const double log_sum = std::log(sum);
    reference::set_element(args.outputs[1], 2 * row, largest);
    reference::set_element(args.outputs[1], 2 * row + 1, log_sum);
    if (targets.weight(row) == 0) continue;
    // Only needed for smoothing. It is infinite if a class is impossible, and 0 times infinity is NaN.
    double sum_log_p = 0;
    for (int64_t k = 0; smoothing != 0 && k < classes; ++k) sum_log_p += x(k) - largest - log_sum;
    loss -= targets.weight(row) * ((1 - smoothing) * (x(targets.label[row]) - largest - log_sum) +
                                   smoothing / static_cast<double>(classes) * sum_log_p);
  }
  reference::set_element(args.outputs[0], 0, targets.weight_sum == 0 ? 0 : loss / targets.weight_sum);
}

// dx[n,k] = w_n / sum w (p[n,k] - (1-s) [k == label] - s/K)
void cross_entropy_backward(const BackwardArgs& args) {
  const Tensor& logits = args.inputs[0];
  const Tensor& grad_x = args.grad_inputs[0];
  const int64_t classes = grad_x.size(1);
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().label_smoothing;
  const CrossEntropyTargets targets(args.inputs[1], weight_of(args.inputs), classes);
  const double grad = reference::element(args.grad_outputs[0], 0);
  for (int64_t row = 0; row < targets.rows; ++row) {
    const double weight = targets.weight(row);
    const double factor = weight == 0 ? 0 : weight / targets.weight_sum * grad;
    const double log_of_all =
        reference::element(args.outputs[1], 2 * row) + reference::element(args.outputs[1], 2 * row + 1);
    for (int64_t k = 0; k < classes; ++k) {
      const double wanted =
          (k == targets.label[row] ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      const double p = std::exp(reference::element(logits, row * classes + k) - log_of_all);
      reference::set_element(grad_x, row * classes + k, weight == 0 ? 0 : factor * (p - wanted));
    }
  }
}

}  // namespace

extern const Kernels cross_entropy_reference;
const Kernels cross_entropy_reference = {.forward = cross_entropy_forward,
                                         .backward = cross_entropy_backward};

namespace {

void mse_forward(const ForwardArgs& args) {
  const int64_t count = args.inputs[0].elements();
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* target = args.inputs[1].data<T>();
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i] - target[i]) * (x[i] - target[i]);
    args.outputs[0].data<T>()[0] = static_cast<T>(sum / static_cast<double>(count));
  });
}

void mse_backward(const BackwardArgs& args) {
  const int64_t count = args.inputs[0].elements();
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T factor = T(2) * args.grad_outputs[0].data<T>()[0] / static_cast<T>(count);
    for (size_t side = 0; side < 2; ++side) {
      if (!args.grad_inputs[side].defined()) continue;
      T* to = args.grad_inputs[side].data<T>();
      const T* x = args.inputs[side].data<T>();
      const T* other = args.inputs[1 - side].data<T>();
      for (int64_t i = 0; i < count; ++i) to[i] = factor * (x[i] - other[i]);
    }
  });
}

}  // namespace

extern const Kernels mse_reference;
const Kernels mse_reference = {.forward = mse_forward, .backward = mse_backward};

}  // namespace dlpipe::engine
