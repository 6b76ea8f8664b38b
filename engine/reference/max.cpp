#include "dlpipe/engine/ops/max.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const AxisSplit s(x.shape(), args.attrs.as<MaxAttrs>().axis);
  reference::typed(x.dtype(), [&]<class T>(T) {
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      const T* values = x.data<T>() + row / s.inner * s.count * s.inner + row % s.inner;
      int64_t best = 0;
      for (int64_t i = 1; i < s.count; ++i) {
        const T value = values[i * s.inner];
        const T former = values[best * s.inner];
        if (value > former || (std::isnan(value) && !std::isnan(former))) best = i;
      }
      args.outputs[0].data<T>()[row] = values[best * s.inner];
      args.outputs[1].data<int64_t>()[row] = best;
    }
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const AxisSplit s(grad_x.shape(), args.attrs.as<MaxAttrs>().axis);
  const int64_t* best = args.outputs[1].data<int64_t>();
  reference::typed(grad_x.dtype(), [&]<class T>(T) {
    std::fill_n(grad_x.data<T>(), grad_x.elements(), T(0));
    for (int64_t row = 0; row < s.outer * s.inner; ++row) {
      grad_x.data<T>()[(row / s.inner * s.count + best[row]) * s.inner + row % s.inner] =
          args.grad_outputs[0].data<T>()[row];
    }
  });
}

}  // namespace

extern const Kernels max_reference;
const Kernels max_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
