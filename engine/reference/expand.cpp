#include "dlpipe/engine/ops/expand.h"

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/strided_copy.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  const Tensor view = expanded_view(args.inputs[0], out.shape());
  copy_strided(out.raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

void backward(const BackwardArgs& args) {
  args.grad_inputs[0] = expanded_gradient(args.grad_outputs[0], args.input_specs[0].shape);
}

}  // namespace

extern const Kernels expand_reference;
const Kernels expand_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
