#include "dlpipe/engine/ops/expand.h"

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/strided_copy.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  const Tensor view = expanded_view(args.inputs[0], out.shape());
  copy_strided(out.raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

// Each element's gradient is the sum over the places where it stands.
void backward(const BackwardArgs& args) {
  const Shape& x = args.input_specs[0].shape;
  const Tensor& grad = args.grad_outputs[0];
  const int added = grad.rank() - x.rank();
  std::vector<int> stretched;
  for (int axis = 0; axis < grad.rank(); ++axis) {
    if (axis < added || x[axis - added] != grad.size(axis)) stretched.push_back(axis);
  }
  args.grad_inputs[0] = reshape(stretched.empty() ? grad : sum(grad, stretched), x);
}

}  // namespace

extern const Kernels expand_reference;
const Kernels expand_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
