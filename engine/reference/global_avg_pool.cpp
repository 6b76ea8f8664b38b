// The slow twin of cpu/images/global_avg_pool.cpp.
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {
namespace {

template <class T>
void forward(const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const int64_t pixels = shape[1] * shape[2];
  const int64_t channels = shape[3];
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      T sum = 0;
      for (int64_t i = 0; i < pixels; ++i) sum += x[(n * pixels + i) * channels + c];
      y[n * channels + c] = sum / static_cast<T>(pixels);
    }
  }
}

template <class T>
void backward(const BackwardArgs& args) {
  const Shape& shape = args.grad_inputs[0].shape();
  const int64_t pixels = shape[1] * shape[2];
  const int64_t channels = shape[3];
  const T* dy = args.grad_outputs[0].data<T>();
  T* dx = args.grad_inputs[0].data<T>();
  for (int64_t i = 0; i < shape[0] * pixels; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      dx[i * channels + c] = dy[i / pixels * channels + c] / static_cast<T>(pixels);
    }
  }
}

}  // namespace

extern const Kernels global_avg_pool_reference;
const Kernels global_avg_pool_reference{
    .forward =
        [](const ForwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? forward<double>(args) : forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.grad_inputs[0].dtype() == DType::kF64 ? backward<double>(args) : backward<float>(args);
        },
};

}  // namespace dlpipe::engine
