#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const int64_t count = args.inputs[0].elements();
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* target = args.inputs[1].data<T>();
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i] - target[i]) * (x[i] - target[i]);
    args.outputs[0].data<T>()[0] = static_cast<T>(sum / static_cast<double>(count));
  });
}

void backward(const BackwardArgs& args) {
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
const Kernels mse_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
