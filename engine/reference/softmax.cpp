#include "dlpipe/engine/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const AxisSplit s(x.shape(), args.attrs.as<SoftmaxAttrs>().axis);
  reference::typed(x.dtype(), [&]<class T>(T) {
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      const int64_t first = row / s.inner * s.count * s.inner + row % s.inner;
      const T* from = x.data<T>() + first;
      T* to = args.outputs[0].data<T>() + first;
      T largest = from[0];
      for (int64_t i = 1; i < s.count; ++i) largest = std::max(largest, from[i * s.inner]);
      T sum = 0;
      for (int64_t i = 0; i < s.count; ++i) sum += to[i * s.inner] = std::exp(from[i * s.inner] - largest);
      for (int64_t i = 0; i < s.count; ++i) to[i * s.inner] /= sum;
    }
  });
}

// dx = y (dy - sum y dy)
void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const AxisSplit s(grad_x.shape(), args.attrs.as<SoftmaxAttrs>().axis);
  reference::typed(grad_x.dtype(), [&]<class T>(T) {
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      const int64_t first = row / s.inner * s.count * s.inner + row % s.inner;
      const T* y = args.outputs[0].data<T>() + first;
      const T* grad = args.grad_outputs[0].data<T>() + first;
      T dot = 0;
      for (int64_t i = 0; i < s.count; ++i) dot += y[i * s.inner] * grad[i * s.inner];
      T* to = grad_x.data<T>() + first;
      for (int64_t i = 0; i < s.count; ++i) to[i * s.inner] = y[i * s.inner] * (grad[i * s.inner] - dot);
    }
  });
}

}  // namespace

extern const Kernels softmax_reference;
const Kernels softmax_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
