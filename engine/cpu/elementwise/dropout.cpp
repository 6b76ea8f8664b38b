#include "dlpipe/engine/ops/dropout.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

namespace {

constexpr int kBlocks = 64;  // Philox blocks drawn side by side

// The words of kBlocks blocks from `first` on, in order: philox4x32 of base/rng.h, one vector lane per block.
// The rounds must be straight code before the compiler looks for vectors.
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

}  // namespace dlpipe::engine
