#include "dlpipe/engine/ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t channels = x.size(-1);
  const double epsilon = args.attrs.as<LayerNormAttrs>().epsilon;
  reference::typed(x.dtype(), [&]<class T>(T) {
    const T* gamma = args.inputs[1].data<T>();
    const T* beta = args.inputs[2].data<T>();
    for (int64_t row = 0; row < x.elements() / channels; ++row) {
      const T* from = x.data<T>() + row * channels;
      T* to = args.outputs[0].data<T>() + row * channels;
      T mean = 0;
      for (int64_t c = 0; c < channels; ++c) mean += from[c];
      mean /= static_cast<T>(channels);
      T variance = 0;
      for (int64_t c = 0; c < channels; ++c) variance += (from[c] - mean) * (from[c] - mean);
      const T inverse = T(1) / std::sqrt(variance / static_cast<T>(channels) + static_cast<T>(epsilon));
      for (int64_t c = 0; c < channels; ++c) to[c] = (from[c] - mean) * inverse * gamma[c] + beta[c];
      args.outputs[1].data<T>()[row] = mean;
      args.outputs[2].data<T>()[row] = inverse;
    }
  });
}

// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std.
void backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const int64_t channels = x.size(-1);
  reference::typed(x.dtype(), [&]<class T>(T) {
    const T* gamma = args.inputs[1].data<T>();
    T* grads[3] = {nullptr, nullptr, nullptr};
    for (size_t i = 0; i < 3; ++i) {
      if (!args.grad_inputs[i].defined()) continue;
      grads[i] = args.grad_inputs[i].data<T>();
      std::fill_n(grads[i], args.grad_inputs[i].elements(), T(0));
    }
    for (int64_t row = 0; row < x.elements() / channels; ++row) {
      const T* from = x.data<T>() + row * channels;
      const T* grad = args.grad_outputs[0].data<T>() + row * channels;
      const T mean = args.outputs[1].data<T>()[row];
      const T inverse = args.outputs[2].data<T>()[row];
      T sum_g = 0;
      T sum_gn = 0;
      for (int64_t c = 0; c < channels; ++c) {
        const T n = (from[c] - mean) * inverse;
        sum_g += grad[c] * gamma[c];
        sum_gn += grad[c] * gamma[c] * n;
        if (grads[1]) grads[1][c] += grad[c] * n;
        if (grads[2]) grads[2][c] += grad[c];
      }
      if (!grads[0]) continue;
      for (int64_t c = 0; c < channels; ++c) {
        const T n = (from[c] - mean) * inverse;
        grads[0][row * channels + c] =
            (grad[c] * gamma[c] - sum_g / static_cast<T>(channels) - n * sum_gn / static_cast<T>(channels)) *
            inverse;
      }
    }
  });
}

}  // namespace

extern const Kernels layer_norm_reference;
const Kernels layer_norm_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
