#include "dlpipe/engine/ops/flatten.h"

#include <array>

#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {
namespace {

/// [N, rows, columns] -> [N, columns, rows].
void copy_transposed(const Tensor& from, const Tensor& to, int64_t n, int64_t rows, int64_t columns) {
  const Shape shape = {n, columns, rows};
  cuda::strided_copy(to.raw(), row_major(shape), from.raw(),
                     std::array<int64_t, 3>{rows * columns, 1, columns}, shape, dtype_size(from.dtype()));
}

void forward(const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const auto [pixels, channels] = pixels_and_channels(shape);
  copy_transposed(args.inputs[0], args.outputs[0], shape[0], pixels, channels);
}
void backward(const BackwardArgs& args) {
  const Shape& shape = args.grad_inputs[0].shape();
  const auto [pixels, channels] = pixels_and_channels(shape);
  copy_transposed(args.grad_outputs[0], args.grad_inputs[0], shape[0], channels, pixels);
}

}  // namespace

DLPIPE_CUDA_KERNELS(flatten) = {forward, backward};

}  // namespace dlpipe::engine
