#include "dlpipe/engine/ops/transpose.h"

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/strided_copy.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

namespace {

void copy_permuted(const Tensor& from, const std::vector<int>& permutation, const Tensor& to) {
  const Tensor view = permuted_view(from, permutation);
  copy_strided(to.raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

}  // namespace

extern const Kernels transpose_reference;
const Kernels transpose_reference = {
    .forward =
        [](const ForwardArgs& args) {
          copy_permuted(args.inputs[0], args.attrs.as<TransposeAttrs>().permutation, args.outputs[0]);
        },
    .backward =
        [](const BackwardArgs& args) {
          copy_permuted(args.grad_outputs[0],
                        inverse_permutation(args.attrs.as<TransposeAttrs>().permutation),
                        args.grad_inputs[0]);
        },
};

}  // namespace dlpipe::engine
