#include "dlpipe/engine/ops/concat.h"

#include <cstring>
#include <utility>
#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

namespace {

// Copies between the whole and its parts, a run of bytes at a time.
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

using Part = std::pair<int64_t, Tensor>;  // size along the axis, and the tensor if it takes part

void forward(const ForwardArgs& args) {
  const int axis = args.attrs.as<ConcatAttrs>().axis;
  std::vector<Part> parts;
  for (const Tensor& input : args.inputs) parts.emplace_back(input.size(axis), input);
  each_run(std::span(parts), args.outputs[0], axis,
           [](const std::byte* part, std::byte* whole, size_t bytes) { std::memcpy(whole, part, bytes); });
}

void backward(const BackwardArgs& args) {
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
const Kernels concat_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
