#include "dlpipe/engine/ops/transpose.h"

#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {
namespace {

void copy_permuted(const Tensor& from, const std::vector<int>& permutation, const Tensor& to) {
  const Tensor view = permuted_view(from, permutation);
  cuda::strided_copy(to.raw(), row_major(to.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}
void forward(const ForwardArgs& args) {
  copy_permuted(args.inputs[0], args.attrs.as<TransposeAttrs>().permutation, args.outputs[0]);
}
void backward(const BackwardArgs& args) {
  copy_permuted(args.grad_outputs[0], inverse_permutation(args.attrs.as<TransposeAttrs>().permutation),
                args.grad_inputs[0]);
}

}  // namespace

DLPIPE_CUDA_KERNELS(transpose) = {forward, backward};

}  // namespace dlpipe::engine
