#include "engine/ops/shape_ops.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "dlpipe/op.h"
#include "engine/core/device_memory.h"

namespace dlpipe::engine {

namespace {

// Calls copy(part, whole, bytes) for every contiguous run; skips undefined parts.
template <class Part, class Copy>
void each_run(std::span<Part> parts, const Tensor& whole, int axis, const Copy& copy) {
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= whole.size(i);
  size_t inner_bytes = dtype_size(whole.dtype());
  for (int i = axis + 1; i < whole.rank(); ++i) inner_bytes *= static_cast<size_t>(whole.size(i));
  auto* at = static_cast<std::byte*>(whole.raw());
  for (int64_t o = 0; o < outer; ++o) {
    for (size_t k = 0; k < parts.size(); ++k) {
      const size_t bytes = static_cast<size_t>(parts[k].first) * inner_bytes;
      if (parts[k].second.defined() && bytes != 0) {
        copy(static_cast<std::byte*>(parts[k].second.raw()) + static_cast<size_t>(o) * bytes, at, bytes);
      }
      at += bytes;
    }
  }
}

using Part = std::pair<int64_t, Tensor>;  // size along the axis; undefined tensor: skip

void concat_forward(const ForwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  std::vector<Part> parts;
  for (const Tensor& input : args.inputs) parts.emplace_back(input.size(axis), input);
  each_run(std::span(parts), args.outputs[0], axis,
           [](const std::byte* part, std::byte* whole, size_t bytes) { std::memcpy(whole, part, bytes); });
}

void concat_backward(const BackwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  std::vector<Part> parts;
  for (size_t k = 0; k < args.grad_inputs.size(); ++k) {
    parts.emplace_back(args.input_specs[k].shape[axis], args.grad_inputs[k]);
  }
  each_run(std::span(parts), args.grad_outputs[0], axis,
           [](std::byte* part, const std::byte* whole, size_t bytes) { std::memcpy(part, whole, bytes); });
}

}  // namespace

extern const Kernels concat_reference;
const Kernels concat_reference = {.forward = concat_forward, .backward = concat_backward};

namespace {

void expand_forward(const ForwardArgs& args) {
  const Tensor& out = args.outputs[0];
  const Tensor view = expanded_view(args.inputs[0], out.shape());
  copy_strided(out.raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

void expand_backward(const BackwardArgs& args) {
  args.grad_inputs[0] = expanded_gradient(args.grad_outputs[0], args.input_specs[0].shape);
}

}  // namespace

extern const Kernels expand_reference;
const Kernels expand_reference = {.forward = expand_forward, .backward = expand_backward};

namespace {

// [N, rows, columns] -> [N, columns, rows], any dtype.
void copy_transposed(const Tensor& from, const Tensor& to, int64_t n, int64_t rows, int64_t columns) {
  copy_strided(to.raw(), from.raw(), {n, columns, rows}, std::array<int64_t, 3>{rows * columns, 1, columns},
               dtype_size(from.dtype()));
}

}  // namespace

extern const Kernels flatten_reference;
const Kernels flatten_reference = {
    .forward =
        [](const ForwardArgs& args) {
          const Shape& shape = args.inputs[0].shape();
          const auto [pixels, channels] = pixels_and_channels(shape);
          copy_transposed(args.inputs[0], args.outputs[0], shape[0], pixels, channels);
        },
    .backward =
        [](const BackwardArgs& args) {
          const Shape& shape = args.grad_inputs[0].shape();
          const auto [pixels, channels] = pixels_and_channels(shape);
          copy_transposed(args.grad_outputs[0], args.grad_inputs[0], shape[0], channels, pixels);
        },
};

namespace {

void copy(const Tensor& from, const Tensor& to) {
  if (from.size_bytes() != 0) std::memcpy(to.raw(), from.raw(), from.size_bytes());
}

}  // namespace

extern const Kernels reshape_reference;
const Kernels reshape_reference = {
    .forward = [](const ForwardArgs& args) { copy(args.inputs[0], args.outputs[0]); },
    .backward = [](const BackwardArgs& args) { copy(args.grad_outputs[0], args.grad_inputs[0]); },
};

namespace {

void slice_forward(const ForwardArgs& args) {
  const Tensor view = sliced_view(args.inputs[0], args.attrs.as<SliceAttrs>());
  copy_strided(args.outputs[0].raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

// The gradient is zero outside the slice.
void slice_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<SliceAttrs>();
  const Tensor& grad_x = args.grad_inputs[0];
  if (grad_x.size_bytes() == 0) return;
  std::memset(grad_x.raw(), 0, grad_x.size_bytes());
  size_t inner_bytes = dtype_size(grad_x.dtype());
  for (int i = attrs.axis + 1; i < grad_x.rank(); ++i) inner_bytes *= static_cast<size_t>(grad_x.size(i));
  int64_t outer = 1;
  for (int i = 0; i < attrs.axis; ++i) outer *= grad_x.size(i);
  const auto* from = static_cast<const std::byte*>(args.grad_outputs[0].raw());
  auto* to = static_cast<std::byte*>(grad_x.raw());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < attrs.count(); ++i) {
      const int64_t place = o * grad_x.size(attrs.axis) + attrs.begin + i * attrs.step;
      std::memcpy(to + static_cast<size_t>(place) * inner_bytes, from, inner_bytes);
      from += inner_bytes;
    }
  }
}

}  // namespace

extern const Kernels slice_reference;
const Kernels slice_reference = {.forward = slice_forward, .backward = slice_backward};

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
