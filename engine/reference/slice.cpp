#include "dlpipe/engine/ops/slice.h"

#include <cstring>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/strided_copy.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor view = sliced_view(args.inputs[0], args.attrs.as<SliceAttrs>());
  copy_strided(args.outputs[0].raw(), view.raw(), view.shape(), view.strides(), dtype_size(view.dtype()));
}

// Zero outside the slice.
void backward(const BackwardArgs& args) {
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
const Kernels slice_reference = {.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
