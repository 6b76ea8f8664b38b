// The reference for cpu/kernels/batch_norm.cpp: one channel after another, sums in double. T is the dtype of parameters and
// statistics: f64 for f64 images, f32 for all others.
#include "engine/ops/batch_norm.h"

#include <cmath>

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/window.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {
namespace {

using reference::element;
using reference::set_element;

Moments moments_of(const Tensor& x, int64_t channels, int64_t c) {
  const auto count = static_cast<double>(x.elements() / channels);
  double sum = 0;
  for (int64_t i = c; i < x.elements(); i += channels) sum += element(x, i);
  Moments moments{count, sum / count, 0};
  for (int64_t i = c; i < x.elements(); i += channels)
    moments.squares += (element(x, i) - moments.mean) * (element(x, i) - moments.mean);
  return moments;
}

template <class T>
void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormTensors t(args);
  const int64_t channels = t.x.shape()[-1];
  const T* gamma = t.gamma.data<T>();
  const T* beta = t.beta.data<T>();
  T* running_mean = t.running_mean.data<T>();
  T* running_var = t.running_var.data<T>();
  StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr;
  std::vector<Moments> all;
  for (int64_t c = 0; attrs.training && c < channels; ++c) all.push_back(moments_of(t.x, channels, c));
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
    t.mean.data<T>()[c] = static_cast<T>(mean);
    t.inverse.data<T>()[c] = static_cast<T>(inv_std);
    for (int64_t i = c; i < t.x.elements(); i += channels) {
      T value = static_cast<T>((element(t.x, i) - mean) * inv_std) * gamma[c] + beta[c];
      if (t.residual.defined()) value += static_cast<T>(element(t.residual, i));
      set_element(t.y, i, attrs.relu && value < 0 ? T(0) : value);
    }
  }
}

// With xhat = (x - mean) * inv_std, and g = dy, or 0 where the relu's output is not positive:
//   dbeta = sum g, dgamma = sum g * xhat, dresidual = g,
//   dx = gamma * inv_std * (g - (dbeta + xhat * dgamma) / count)   in training,
//   dx = gamma * inv_std * g                                       with running statistics.
template <class T>
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormGradients t(args);
  const int64_t channels = t.x.shape()[-1];
  const T* gamma = t.gamma.data<T>();
  const T* mean = t.mean.data<T>();
  const T* inv_std = t.inverse.data<T>();
  const auto xhat = [&](int64_t i, int64_t c) {
    return (element(t.x, i) - static_cast<double>(mean[c])) * static_cast<double>(inv_std[c]);
  };
  const auto passed = [&](int64_t i) {
    return attrs.relu && !(element(t.y, i) > 0) ? 0.0 : element(t.grad_y, i);
  };
  std::vector<GradientTotals> all(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    GradientTotals& totals = all[static_cast<size_t>(c)];
    for (int64_t i = c; i < t.x.elements(); i += channels) {
      totals.sum += passed(i);
      totals.weighted += passed(i) * xhat(i, c);
    }
    if (t.to_beta.defined()) set_element(t.to_beta, c, totals.sum);
    if (t.to_gamma.defined()) set_element(t.to_gamma, c, totals.weighted);
  }
  auto all_count = static_cast<double>(t.x.elements() / channels);
  if (StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr; peers != nullptr) {
    share_totals(*peers, all);
    all_count *= static_cast<double>(peers->parts());
  }
  for (int64_t c = 0; c < channels; ++c) {
    const GradientTotals& totals = all[static_cast<size_t>(c)];
    const double factor = static_cast<double>(gamma[c]) * static_cast<double>(inv_std[c]);
    for (int64_t i = c; i < t.x.elements(); i += channels) {
      const double centred =
          attrs.training ? passed(i) - (totals.sum + xhat(i, c) * totals.weighted) / all_count : passed(i);
      if (t.to_x.defined()) set_element(t.to_x, i, factor * centred);
      if (t.to_residual.defined()) set_element(t.to_residual, i, passed(i));
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
