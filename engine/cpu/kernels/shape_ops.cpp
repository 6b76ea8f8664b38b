// concat on the CPU: copies runs of bytes, in parallel. Channel-blocked images stay blocked.
#include "engine/ops/shape_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "dlpipe/op.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kSliceBytes = 256 << 10;

// The sizes of a tensor in the order of memory, and the index of `axis` among them.
struct InMemory {
  std::array<int64_t, Shape::kMaxRank> sizes{};
  int rank = 0;
  int axis = 0;

  InMemory(const Shape& shape, Layout layout, int of_axis) : rank(shape.rank()), axis(of_axis) {
    std::copy(shape.begin(), shape.end(), sizes.begin());
    if (layout == Layout::kPlain) return;
    const int block = layout_block(layout);  // [N,C/block,H,W,block]
    sizes = {shape[0], shape[3] / block, shape[1], shape[2], block};
    rank = 5;
    axis = std::array{0, 2, 3, 1}.at(static_cast<size_t>(of_axis));
  }
  int64_t product(int from, int to) const {
    int64_t all = 1;
    for (int i = from; i < to; ++i) all *= sizes[static_cast<size_t>(i)];
    return all;
  }
};

// Calls copy(part, whole, bytes) for every run of bytes; skips undefined parts.
template <class Copy>
void each_run(std::span<const Tensor> parts, std::span<const TensorSpec> specs, const Tensor& whole, int axis,
              const Copy& copy) {
  const auto run_bytes = [&](const Shape& shape) {  // per step along the axes before `axis`
    const InMemory at(shape, whole.layout(), axis);
    return at.product(at.axis, at.rank) * static_cast<int64_t>(dtype_size(whole.dtype()));
  };
  std::vector<int64_t> bytes;
  for (const TensorSpec& spec : specs) bytes.push_back(run_bytes(spec.shape));
  const InMemory in_memory(whole.shape(), whole.layout(), axis);
  const int64_t row = run_bytes(whole.shape());
  if (row == 0) return;
  parallel_ranges(in_memory.product(0, in_memory.axis), std::max<int64_t>(1, kSliceBytes / row),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t o = begin; o < end; ++o) {
                      std::byte* at = static_cast<std::byte*>(whole.raw()) + o * row;
                      for (size_t k = 0; k < bytes.size(); at += bytes[k++]) {
                        if (parts[k].defined() && bytes[k] != 0)
                          copy(static_cast<std::byte*>(parts[k].raw()) + o * bytes[k], at,
                               static_cast<size_t>(bytes[k]));
                      }
                    }
                  });
}

void concat_forward(const ForwardArgs& args) {
  const std::vector<TensorSpec> specs = specs_of(args.inputs);
  each_run(args.inputs, specs, args.outputs[0], args.attrs.as<ConcatAttrs>().axis,
           [](const std::byte* part, std::byte* whole, size_t bytes) { std::memcpy(whole, part, bytes); });
}

void concat_backward(const BackwardArgs& args) {
  each_run(args.grad_inputs, args.input_specs, args.grad_outputs[0], args.attrs.as<ConcatAttrs>().axis,
           [](std::byte* part, const std::byte* whole, size_t bytes) { std::memcpy(part, whole, bytes); });
}

// The block layout that at least half of all elements have, if the channels of every input fit its blocks.
LayoutChoice choose_concat_layout(std::span<const TensorSpec> inputs, const Attrs&) {
  std::array<int64_t, 3> elements{};  // per layout
  for (const TensorSpec& input : inputs)
    elements.at(static_cast<size_t>(input.layout)) += input.shape.elements();
  const Layout layout = elements[1] > elements[2] ? Layout::kBlocked8 : Layout::kBlocked16;
  const int64_t others = elements[0] + std::min(elements[1], elements[2]);
  const bool fits = std::all_of(inputs.begin(), inputs.end(), [&](const TensorSpec& input) {
    return input.dtype == DType::kF32 && input.shape.rank() == 4 &&
           input.shape[3] % layout_block(layout) == 0;
  });
  if (!fits || std::max(elements[1], elements[2]) < std::max<int64_t>(1, others)) return {};
  return {layout, layout};
}

}  // namespace

extern const Kernels concat_cpu;
const Kernels concat_cpu{
    .forward = concat_forward, .backward = concat_backward, .choose_layout = choose_concat_layout};

}  // namespace dlpipe::engine
