// elementwise_chain on the CPU: every step's own kernel on a block that stays in a core's cache, then the next block.
#include "dlpipe/engine/ops/elementwise_chain.h"

#include <algorithm>

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

namespace {

// Of f32, 32 KiB: with the few that a chain has at once less than any second-level cache, and long enough that calling a
// step (some hundred ns) is little beside computing it.
constexpr int64_t kBlockElements = 8192;
constexpr int kSlot = 1;  // of worker_scratch; no elementwise kernel takes any

// f16 is computed in f32, as `apply` does where kernels don't take it; casts of it are the reference's.
bool takes(DType dtype) {
  return is_f32_or_bf16(dtype);
}

const Kernels* kernels_of(const OpRow& op, DType operands, const Attrs& attrs) {
  const Kernels* const own = op.kernels[static_cast<int>(Backend::kCpu)];
  const TensorSpec operand = {{}, operands};
  return own->supports({&operand, 1}, attrs) ? own : op.kernels[static_cast<int>(Backend::kReference)];
}

void forward(const ForwardArgs& args) {
  const Tensor& y = args.outputs[0];
  if (y.elements() == 0) return;
  const ChainPlan plan =
      plan_chain(specs_of(args.inputs), y.shape(), args.attrs.as<ChainAttrs>(), {takes, kernels_of});
  const int64_t block = std::max<int64_t>(1, kBlockElements / plan.channels);
  const size_t buffer_bytes = static_cast<size_t>(block * plan.channels) * sizeof(float);
  const int64_t blocks_per_slice = std::max<int64_t>(1, cpu::kElementwiseGrain / (block * plan.channels));
  parallel_ranges(y.elements() / plan.channels, block * blocks_per_slice, [&](int64_t begin, int64_t end) {
    std::byte* const scratch = worker_scratch(kSlot, buffer_bytes * static_cast<size_t>(plan.buffers));
    ChainRun run(plan, args, [&](const ChainPlan::Step& step, const Shape& shape) {
      return Tensor::borrow(scratch + buffer_bytes * static_cast<size_t>(step.buffer), shape, step.dtype);
    });
    for (int64_t first = begin; first < end; first += block) run(first, std::min(end, first + block));
  });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return takes(spec.dtype) || spec.dtype == DType::kF16; });
}

}  // namespace

extern const Kernels elementwise_chain_cpu;
const Kernels elementwise_chain_cpu{.forward = forward, .supports = supports};

}  // namespace dlpipe::engine
