#include "dlpipe/engine/ops/expand.h"

#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {
namespace {

void forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  const Tensor view = expanded_view(args.inputs[0], out.shape());
  cuda::strided_copy(out.raw(), row_major(out.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}

void backward(const BackwardArgs& args) {
  args.grad_inputs[0] = expanded_gradient(args.grad_outputs[0], args.input_specs[0].shape);
}

}  // namespace

DLPIPE_CUDA_KERNELS(expand) = {forward, backward};

}  // namespace dlpipe::engine
