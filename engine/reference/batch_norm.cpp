// The slow twin of cpu/images/batch_norm.cpp: one channel after another, sums in double.
#include <cmath>

#include <vector>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/batch_statistics.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

template <class T>
Moments moments_of(const T* x, int64_t count, int64_t channels, int64_t c) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i * channels + c];
  Moments moments{static_cast<double>(count), sum / static_cast<double>(count), 0};
  for (int64_t i = 0; i < count; ++i)
    moments.squares += (x[i * channels + c] - moments.mean) * (x[i * channels + c] - moments.mean);
  return moments;
}

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
  StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr;
  std::vector<Moments> all;
  for (int64_t c = 0; attrs.training && c < channels; ++c) all.push_back(moments_of(x, count, channels, c));
  if (peers != nullptr) share_moments(*peers, all);
  for (int64_t c = 0; c < channels; ++c) {
    double mean = running_mean[c];
    double var = running_var[c];
    if (attrs.training) {
      const Moments& moments = all[static_cast<size_t>(c)];
      mean = moments.mean;
      var = moments.squares / moments.count;
      const double unbiased = moments.squares / (moments.count - 1);
      if (peers == nullptr || peers->leads()) {
        running_mean[c] = static_cast<T>((1 - attrs.momentum) * running_mean[c] + attrs.momentum * mean);
        running_var[c] = static_cast<T>((1 - attrs.momentum) * running_var[c] + attrs.momentum * unbiased);
      }
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
  const auto xhat = [&](int64_t i, int64_t c) {
    return (x[i] - static_cast<double>(args.outputs[1].data<T>()[c])) *
           static_cast<double>(args.outputs[2].data<T>()[c]);
  };
  const auto passed = [&](int64_t i) { return attrs.relu && !(y[i] > 0) ? T(0) : dy[i]; };
  std::vector<GradientTotals> all(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    GradientTotals& totals = all[static_cast<size_t>(c)];
    for (int64_t i = c; i < count * channels; i += channels) {
      totals.sum += passed(i);
      totals.weighted += passed(i) * xhat(i, c);
    }
    if (dbeta != nullptr) dbeta[c] = static_cast<T>(totals.sum);
    if (dgamma != nullptr) dgamma[c] = static_cast<T>(totals.weighted);
  }
  auto all_count = static_cast<double>(count);
  if (StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr; peers != nullptr) {
    share_totals(*peers, all);
    all_count *= static_cast<double>(peers->parts());
  }
  for (int64_t c = 0; c < channels; ++c) {
    const GradientTotals& totals = all[static_cast<size_t>(c)];
    const double inv_std = args.outputs[2].data<T>()[c];
    for (int64_t i = c; i < count * channels; i += channels) {
      const double centred =
          attrs.training ? passed(i) - (totals.sum + xhat(i, c) * totals.weighted) / all_count : passed(i);
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
