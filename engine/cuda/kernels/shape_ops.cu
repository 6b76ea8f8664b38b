#include "engine/ops/shape_ops.h"

#include <array>

#include "engine/cuda/loops/strided.h"

namespace dlpipe::engine {
namespace {

/// Where the part of `whole` from `begin` on along the axis is in memory, and its strides.
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

void concat_forward(const ForwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  int64_t begin = 0;
  for (const Tensor& input : args.inputs) {
    const Part part = part_of(args.outputs[0], axis, begin);
    cuda::strided_copy(part.first, part.strides, input.raw(), row_major(input.shape()), input.shape(),
                       dtype_size(input.dtype()));
    begin += input.size(axis);
  }
}

void concat_backward(const BackwardArgs& args) {
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

bool supports_concat(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& input : inputs) {
    if (input.dtype != inputs[0].dtype) return false;
  }
  return true;
}

}  // namespace

DLPIPE_CUDA_KERNELS(concat) = {concat_forward, concat_backward, supports_concat};

namespace {

void expand_forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  const Tensor view = expanded_view(args.inputs[0], out.shape());
  cuda::strided_copy(out.raw(), row_major(out.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}

void expand_backward(const BackwardArgs& args) {
  args.grad_inputs[0] = expanded_gradient(args.grad_outputs[0], args.input_specs[0].shape);
}

}  // namespace

DLPIPE_CUDA_KERNELS(expand) = {expand_forward, expand_backward};

namespace {

/// Copies [N, rows, columns] to [N, columns, rows].
void copy_transposed(const Tensor& from, const Tensor& to, int64_t n, int64_t rows, int64_t columns) {
  const Shape shape = {n, columns, rows};
  cuda::strided_copy(to.raw(), row_major(shape), from.raw(),
                     std::array<int64_t, 3>{rows * columns, 1, columns}, shape, dtype_size(from.dtype()));
}

void flatten_forward(const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const auto [pixels, channels] = pixels_and_channels(shape);
  copy_transposed(args.inputs[0], args.outputs[0], shape[0], pixels, channels);
}
void flatten_backward(const BackwardArgs& args) {
  const Shape& shape = args.grad_inputs[0].shape();
  const auto [pixels, channels] = pixels_and_channels(shape);
  copy_transposed(args.grad_outputs[0], args.grad_inputs[0], shape[0], channels, pixels);
}

}  // namespace

DLPIPE_CUDA_KERNELS(flatten) = {flatten_forward, flatten_backward};

namespace {

void copy(const Tensor& from, const Tensor& to) {
  const std::array<int64_t, 1> one = {1};
  cuda::strided_copy(to.raw(), one, from.raw(), one, {from.elements()}, dtype_size(from.dtype()));
}
void reshape_forward(const ForwardArgs& args) {
  copy(args.inputs[0], args.outputs[0]);
}
void reshape_backward(const BackwardArgs& args) {
  copy(args.grad_outputs[0], args.grad_inputs[0]);
}

}  // namespace

DLPIPE_CUDA_KERNELS(reshape) = {reshape_forward, reshape_backward};

namespace {

void slice_forward(const ForwardArgs& args) {
  const Tensor view = sliced_view(args.inputs[0], args.attrs.as<SliceAttrs>());
  cuda::strided_copy(args.outputs[0].raw(), row_major(view.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}

/// The gradient is zero outside the slice.
void slice_backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad = args.grad_outputs[0];
  cuda::zero(grad_x);
  const Tensor view = sliced_view(grad_x, args.attrs.as<SliceAttrs>());
  cuda::strided_copy(view.raw(), view.strides(), grad.raw(), row_major(grad.shape()), grad.shape(),
                     dtype_size(grad.dtype()));
}

}  // namespace

DLPIPE_CUDA_KERNELS(slice) = {slice_forward, slice_backward};

namespace {

void copy_permuted(const Tensor& from, const std::vector<int>& permutation, const Tensor& to) {
  const Tensor view = permuted_view(from, permutation);
  cuda::strided_copy(to.raw(), row_major(to.shape()), view.raw(), view.strides(), view.shape(),
                     dtype_size(view.dtype()));
}
void transpose_forward(const ForwardArgs& args) {
  copy_permuted(args.inputs[0], args.attrs.as<TransposeAttrs>().permutation, args.outputs[0]);
}
void transpose_backward(const BackwardArgs& args) {
  copy_permuted(args.grad_outputs[0], inverse_permutation(args.attrs.as<TransposeAttrs>().permutation),
                args.grad_inputs[0]);
}

}  // namespace

DLPIPE_CUDA_KERNELS(transpose) = {transpose_forward, transpose_backward};

}  // namespace dlpipe::engine
