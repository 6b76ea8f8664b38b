// The slow twin of cpu/images/batch_norm.cpp: one channel after another, sums in double.
#include <cmath>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

template <class T>
void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const int64_t channels = args.inputs[0].shape()[-1];
  const int64_t count = args.inputs[0].elements() / channels;
  const T* x = args.inputs[0].data<T>();
  const T* gamma = args.inputs[1].data<T>();
  const T* beta = args.inputs[2].data<T>();
  T* running_mean = args.inputs[3].data<T>();
  T* running_var = args.inputs[4].data<T>();
  const T* residual = has_input(args.inputs, 5) ? args.inputs[5].data<T>() : nullptr;
  T* y = args.outputs[0].data<T>();
  for (int64_t c = 0; c < channels; ++c) {
    double mean = running_mean[c];
    double var = running_var[c];
    if (attrs.training) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += x[i * channels + c];
      mean = sum / static_cast<double>(count);
      double squares = 0;
      for (int64_t i = 0; i < count; ++i)
        squares += (x[i * channels + c] - mean) * (x[i * channels + c] - mean);
      var = squares / static_cast<double>(count);
      const double unbiased = squares / static_cast<double>(count - 1);
      running_mean[c] = static_cast<T>((1 - attrs.momentum) * running_mean[c] + attrs.momentum * mean);
      running_var[c] = static_cast<T>((1 - attrs.momentum) * running_var[c] + attrs.momentum * unbiased);
    }
    const double inv_std = 1 / std::sqrt(var + attrs.epsilon);
    args.outputs[1].data<T>()[c] = static_cast<T>(mean);
    args.outputs[2].data<T>()[c] = static_cast<T>(inv_std);
    for (int64_t i = c; i < count * channels; i += channels) {
      T value = static_cast<T>((x[i] - mean) * inv_std) * gamma[c] + beta[c];
      if (residual != nullptr) value += residual[i];
      y[i] = attrs.relu && value < 0 ? T(0) : value;
    }
  }
}

// With xhat = (x - mean) * inv_std and g = dy where the relu let it through:
//   dbeta = sum g, dgamma = sum g * xhat, dresidual = g,
//   dx = gamma * inv_std * (g - (dbeta + xhat * dgamma) / count)   in training,
//   dx = gamma * inv_std * g                                       with running statistics.
template <class T>
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const int64_t channels = args.inputs[0].shape()[-1];
  const int64_t count = args.inputs[0].elements() / channels;
  const T* x = args.inputs[0].data<T>();
  const T* gamma = args.inputs[1].data<T>();
  const T* y = attrs.relu ? args.outputs[0].data<T>() : nullptr;
  const T* dy = args.grad_outputs[0].data<T>();
  const auto wanted = [&](size_t i) -> T* {
    return has_input(args.grad_inputs, i) ? args.grad_inputs[i].data<T>() : nullptr;
  };
  T* const dx = wanted(0);
  T* const dgamma = wanted(1);
  T* const dbeta = wanted(2);
  T* const dresidual = wanted(5);
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = args.outputs[1].data<T>()[c];
    const double inv_std = args.outputs[2].data<T>()[c];
    const auto passed = [&](int64_t i) { return attrs.relu && !(y[i] > 0) ? T(0) : dy[i]; };
    double sum = 0;
    double sum_xhat = 0;
    for (int64_t i = c; i < count * channels; i += channels) {
      sum += passed(i);
      sum_xhat += passed(i) * (x[i] - mean) * inv_std;
    }
    if (dbeta != nullptr) dbeta[c] = static_cast<T>(sum);
    if (dgamma != nullptr) dgamma[c] = static_cast<T>(sum_xhat);
    for (int64_t i = c; i < count * channels; i += channels) {
      const double xhat = (x[i] - mean) * inv_std;
      const double centred =
          attrs.training ? passed(i) - (sum + xhat * sum_xhat) / static_cast<double>(count) : passed(i);
      if (dx != nullptr) dx[i] = static_cast<T>(gamma[c] * inv_std * centred);
      if (dresidual != nullptr) dresidual[i] = passed(i);
    }
  }
}

}  // namespace

extern const Kernels batch_norm_reference;
const Kernels batch_norm_reference{
    .forward =
        [](const ForwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? forward<double>(args) : forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? backward<double>(args) : backward<float>(args);
        },
};

}  // namespace dlpipe::engine
