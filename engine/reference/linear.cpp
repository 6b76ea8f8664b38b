#include <algorithm>

#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/reference/activation.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const int64_t out = args.inputs[1].size(0);
  const int64_t in = args.inputs[1].size(1);
  const int64_t rows = args.outputs[0].elements() / std::max<int64_t>(1, out);
  const bool has_bias = args.inputs.size() > 2 && args.inputs[2].defined();
  reference::typed(args.outputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* weight = args.inputs[1].data<T>();
    T* y = product_of(args.outputs).data<T>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < out; ++o) {
        T sum = has_bias ? args.inputs[2].data<T>()[o] : T(0);
        for (int64_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[o * in + i];
        y[row * out + o] = sum;
      }
    }
  });
  reference::activate(args.attrs.as<LinearAttrs>().activation, product_of(args.outputs), args.outputs[0]);
}

void backward(const BackwardArgs& args) {
  const int64_t out = args.inputs[1].size(0);
  const int64_t in = args.inputs[1].size(1);
  const int64_t rows = args.grad_outputs[0].elements() / std::max<int64_t>(1, out);
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* weight = args.inputs[1].data<T>();
    const T* grad = args.grad_outputs[0].data<T>();
    T* grads[3] = {nullptr, nullptr, nullptr};
    for (size_t i = 0; i < args.grad_inputs.size(); ++i) {
      if (!args.grad_inputs[i].defined()) continue;
      grads[i] = args.grad_inputs[i].data<T>();
      std::fill_n(grads[i], args.grad_inputs[i].elements(), T(0));
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < out; ++o) {
        const T g = grad[row * out + o];
        for (int64_t i = 0; i < in; ++i) {
          if (grads[0]) grads[0][row * in + i] += g * weight[o * in + i];
          if (grads[1]) grads[1][o * in + i] += g * x[row * in + i];
        }
        if (grads[2]) grads[2][o] += g;
      }
    }
  });
}

}  // namespace

extern const Kernels linear_reference;
const Kernels linear_reference = {
    .forward = forward, .backward = backward, .fused = reference::fused_kernels<LinearAttrs>};

}  // namespace dlpipe::engine
