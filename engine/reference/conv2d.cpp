// The reference for cpu/conv/conv2d.cpp: seven nested loops over plain tensors.
#include "engine/ops/conv2d.h"

#include <algorithm>

#include "dlpipe/op.h"
#include "engine/ops/window.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {
namespace {

/// Calls use(input element, weight element) for every pair that contributes to output (n, oh, ow, o).
template <class Use>
void for_window(const Conv2dShape& s, int64_t n, int64_t oh, int64_t ow, int64_t o, const Use& use) {
  const int64_t first_channel = o / s.o_group() * s.c_group();
  for (int64_t c = 0; c < s.c_group(); ++c) {
    for (int64_t kh = 0; kh < s.kh; ++kh) {
      const int64_t h = oh * s.stride[0] - s.padding[0] + kh * s.dilation[0];
      if (h < 0 || h >= s.h) continue;
      for (int64_t kw = 0; kw < s.kw; ++kw) {
        const int64_t w = ow * s.stride[1] - s.padding[1] + kw * s.dilation[1];
        if (w < 0 || w >= s.w) continue;
        use(((n * s.h + h) * s.w + w) * s.c + first_channel + c,
            ((o * s.c_group() + c) * s.kh + kh) * s.kw + kw);
      }
    }
  }
}

/// Calls use(output element, n, oh, ow, o) for every output.
template <class Use>
void for_outputs(const Conv2dShape& s, const Use& use) {
  int64_t i = 0;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t oh = 0; oh < s.oh; ++oh) {
      for (int64_t ow = 0; ow < s.ow; ++ow) {
        for (int64_t o = 0; o < s.o; ++o) use(i++, n, oh, ow, o);
      }
    }
  }
}

template <class T>
void forward(const ForwardArgs& args) {
  const Conv2dShape s =
      conv2d_shape(args.inputs[0].shape(), args.inputs[1].shape(), args.attrs.as<Conv2dAttrs>());
  const T* x = args.inputs[0].data<T>();
  const T* weight = args.inputs[1].data<T>();
  const T* bias = has_input(args.inputs, 2) ? args.inputs[2].data<T>() : nullptr;
  T* y = args.outputs[0].data<T>();
  for_outputs(s, [&](int64_t i, int64_t n, int64_t oh, int64_t ow, int64_t o) {
    T sum = bias != nullptr ? bias[o] : T(0);
    for_window(s, n, oh, ow, o, [&](int64_t xi, int64_t wi) { sum += x[xi] * weight[wi]; });
    y[i] = sum;
  });
  reference::activate(args.attrs.as<Conv2dAttrs>().activation, args.outputs[0], args.outputs[0]);
}

template <class T>
void backward(const BackwardArgs& args) {
  const Conv2dShape s =
      conv2d_shape(args.inputs[0].shape(), args.inputs[1].shape(), args.attrs.as<Conv2dAttrs>());
  const T* x = args.inputs[0].data<T>();
  const T* weight = args.inputs[1].data<T>();
  const T* dy = args.grad_outputs[0].data<T>();
  const auto zeroed = [&](size_t input) -> T* {
    if (!has_input(args.grad_inputs, input)) return nullptr;
    const Tensor& grad = args.grad_inputs[input];
    std::fill_n(grad.data<T>(), grad.elements(), T(0));
    return grad.data<T>();
  };
  T* dx = zeroed(0);
  T* dweight = zeroed(1);
  T* dbias = zeroed(2);
  for_outputs(s, [&](int64_t i, int64_t n, int64_t oh, int64_t ow, int64_t o) {
    const T grad = dy[i];
    if (dbias != nullptr) dbias[o] += grad;
    for_window(s, n, oh, ow, o, [&](int64_t xi, int64_t wi) {
      if (dx != nullptr) dx[xi] += grad * weight[wi];
      if (dweight != nullptr) dweight[wi] += grad * x[xi];
    });
  });
}

}  // namespace

extern const Kernels conv2d_reference;
const Kernels conv2d_reference{
    .forward =
        [](const ForwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? forward<double>(args) : forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? backward<double>(args) : backward<float>(args);
        },
    .fused = reference::fused_kernels<Conv2dAttrs>,
};

extern const Kernels conv_transpose2d_reference;
const Kernels conv_transpose2d_reference{
    .forward = ConvTransposeKernels<conv2d_reference>::forward,
    .backward = ConvTransposeKernels<conv2d_reference>::backward,
};

}  // namespace dlpipe::engine
