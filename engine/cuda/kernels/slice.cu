#include "dlpipe/engine/ops/slice.h"

#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {
namespace {

void forward(const ForwardArgs& args) {
  const Tensor view = sliced_view(args.inputs[0], args.attrs.as<SliceAttrs>());
  cuda::strided_copy(args.outputs[0].raw(), row_major(view.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}

/// Zero outside the slice.
void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad = args.grad_outputs[0];
  cuda::zero(grad_x);
  const Tensor view = sliced_view(grad_x, args.attrs.as<SliceAttrs>());
  cuda::strided_copy(view.raw(), view.strides(), grad.raw(), row_major(grad.shape()), grad.shape(),
                     dtype_size(grad.dtype()));
}

}  // namespace

DLPIPE_CUDA_KERNELS(slice) = {forward, backward};

}  // namespace dlpipe::engine
