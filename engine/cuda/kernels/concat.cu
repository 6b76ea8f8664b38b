#include "dlpipe/engine/ops/concat.h"

#include "dlpipe/engine/cuda/loops/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {
namespace {

/// The part of `whole` of `size` along the axis from `begin` on.
struct Part {
  std::byte* first;
  std::vector<int64_t> strides;
};
Part part_of(const Tensor& whole, int axis, int64_t begin) {
  Part part{static_cast<std::byte*>(whole.raw()), row_major(whole.shape())};
  part.first +=
      static_cast<size_t>(begin * part.strides[static_cast<size_t>(axis)]) * dtype_size(whole.dtype());
  return part;
}

void forward(const ForwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  int64_t begin = 0;
  for (const Tensor& input : args.inputs) {
    const Part part = part_of(args.outputs[0], axis, begin);
    cuda::strided_copy(part.first, part.strides, input.raw(), row_major(input.shape()), input.shape(),
                       dtype_size(input.dtype()));
    begin += input.size(axis);
  }
}

void backward(const BackwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  int64_t begin = 0;
  for (size_t k = 0; k < args.grad_inputs.size(); ++k) {
    const Tensor& to = args.grad_inputs[k];
    if (to.defined()) {
      const Part part = part_of(args.grad_outputs[0], axis, begin);
      cuda::strided_copy(to.raw(), row_major(to.shape()), part.first, part.strides, to.shape(),
                         dtype_size(to.dtype()));
    }
    begin += args.input_specs[k].shape[axis];
  }
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& input : inputs) {
    if (input.dtype != inputs[0].dtype) return false;
  }
  return true;
}

}  // namespace

DLPIPE_CUDA_KERNELS(concat) = {forward, backward, supports};

}  // namespace dlpipe::engine
