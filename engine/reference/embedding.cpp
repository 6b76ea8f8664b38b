#include "dlpipe/engine/ops/embedding.h"

#include <algorithm>

#include "dlpipe/engine/reference/typed.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& ids = args.inputs[1];
  check_ids(ids, table.size(0));
  reference::typed(table.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < ids.elements(); ++i) {
      std::copy_n(table.data<T>() + ids.data<int64_t>()[i] * table.size(1), table.size(1),
                  args.outputs[0].data<T>() + i * table.size(1));
    }
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad_table = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  const int64_t width = grad_table.size(1);
  reference::typed(grad_table.dtype(), [&]<class T>(T) {
    T* to = grad_table.data<T>();
    std::fill_n(to, grad_table.elements(), T(0));
    for (int64_t i = 0; i < ids.elements(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        to[ids.data<int64_t>()[i] * width + c] += args.grad_outputs[0].data<T>()[i * width + c];
      }
    }
  });
}

}  // namespace

extern const Kernels embedding_reference;
const Kernels embedding_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
