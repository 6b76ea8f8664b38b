// dropout and elementwise_chain on the CPU.
#include "engine/cpu/loops/elementwise.h"

#include <algorithm>

#include "engine/ops/dropout.h"
#include "engine/ops/elementwise_chain.h"

namespace dlpipe::engine {

namespace {

constexpr int kBlocks = 64;  // Philox blocks drawn together

// The words of kBlocks blocks from `first` on, in order: philox4x32 of dlpipe/random.h, one vector lane per
// block. The rounds are unrolled, because the compiler vectorizes the outer loop only if its body is
// straight code.
DLPIPE_FORMULA void draw(uint64_t first, const PhiloxBlock& start, std::array<uint32_t, 2> key,
                         uint32_t* words) {
  for (int b = 0; b < kBlocks; ++b) {
    const uint64_t block = first + static_cast<uint64_t>(b);
    auto c0 = static_cast<uint32_t>(block);
    auto c1 = static_cast<uint32_t>(block >> 32);
    uint32_t c2 = start[2];
    uint32_t c3 = start[3];
#pragma GCC unroll 10
    for (uint32_t round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ (key[0] + round * 0x9E3779B9u);
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ (key[1] + round * 0xBB67AE85u);
      c3 = static_cast<uint32_t>(p0);
    }
    words[b * 4] = c0;
    words[b * 4 + 1] = c1;
    words[b * 4 + 2] = c2;
    words[b * 4 + 3] = c3;
  }
}

void mask(const Tensor& from, const Tensor& to, const DropoutAttrs& attrs) {
  constexpr int64_t kGroup = kBlocks * 4;
  static_assert(cpu::kElementwiseGrain % kGroup == 0);
  const auto scale = static_cast<float>(attrs.scale());
  const uint32_t threshold = attrs.threshold();
  const std::array<uint32_t, 2> key = attrs.key();
  const PhiloxBlock start = DropoutAttrs::counter(0, attrs.call);
  cpu::stored(from.dtype(), [&]<class T>(T*) {
    const T* x = static_cast<const T*>(from.raw());
    T* y = static_cast<T*>(to.raw());
    parallel_ranges(from.elements(), cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t i = begin; i < end; i += kGroup) {
          uint32_t words[kGroup];
          draw(static_cast<uint64_t>(i) / 4, start, key, words);
          const int64_t count = std::min<int64_t>(kGroup, end - i);
          for (int64_t k = 0; k < count; ++k) {
            const float value = cpu::load_one(x + i + k) * scale;
            cpu::store_one(y + i + k, words[k] >= threshold ? value : 0.0f);
          }
        }
      });
    });
  });
}

}  // namespace

extern const Kernels dropout_cpu;
const Kernels dropout_cpu = {
    .forward =
        [](const ForwardArgs& args) { mask(args.inputs[0], args.outputs[0], args.attrs.as<DropoutAttrs>()); },
    .backward =
        [](const BackwardArgs& args) {
          mask(args.grad_outputs[0], args.grad_inputs[0], args.attrs.as<DropoutAttrs>());
        },
    .supports = cpu::supports_f32_bf16,
};

// elementwise_chain on the CPU: runs all steps, each with its own kernel, on a block that stays in a core's cache, then the next
// block.

namespace {

// 32 KiB in f32. The few blocks that a chain needs at once are smaller than any second-level cache, and a block is long
// enough that a step's call (a few hundred ns) is short compared with its computation.
constexpr int64_t kBlockElements = 8192;
constexpr int kSlot = 1;  // of worker_scratch; elementwise kernels don't use it

// f16 operands are cast by the reference and computed in f32, as `apply` does if kernels don't support f16.
bool takes(DType dtype) {
  return is_f32_or_bf16(dtype);
}

const Kernels* kernels_of(const OpRow& op, DType operands, const Attrs& attrs) {
  const Kernels* const own = op.kernels[static_cast<int>(Backend::kCpu)];
  const TensorSpec operand = {{}, operands};
  return own->supports({&operand, 1}, attrs) ? own : op.kernels[static_cast<int>(Backend::kReference)];
}

void chain_forward(const ForwardArgs& args) {
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

bool supports_chain(std::span<const TensorSpec> inputs, const Attrs&) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return takes(spec.dtype) || spec.dtype == DType::kF16; });
}

}  // namespace

extern const Kernels elementwise_chain_cpu;
const Kernels elementwise_chain_cpu{.forward = chain_forward, .supports = supports_chain};

}  // namespace dlpipe::engine
