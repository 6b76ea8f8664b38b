#include "dlpipe/engine/ops/dropout.h"

#include "dlpipe/engine/cpu/elementwise.h"

namespace dlpipe::engine {

namespace {

constexpr int kBlocks = 16;  // Philox blocks drawn side by side

// The words of kBlocks blocks from `first` on, in order: philox4x32 of base/rng.h, one vector lane a block.
DLPIPE_FORMULA void draw(uint64_t first, const PhiloxBlock& start, std::array<uint32_t, 2> key,
                         uint32_t* words) {
  std::array<std::array<uint32_t, kBlocks>, 4> c;
  for (int b = 0; b < kBlocks; ++b) {
    const uint64_t block = first + static_cast<uint64_t>(b);
    c[0][b] = static_cast<uint32_t>(block);
    c[1][b] = static_cast<uint32_t>(block >> 32);
    c[2][b] = start[2];
    c[3][b] = start[3];
  }
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < kBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][b];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2][b];
      c[0][b] = static_cast<uint32_t>(p1 >> 32) ^ c[1][b] ^ key[0];
      c[1][b] = static_cast<uint32_t>(p1);
      c[2][b] = static_cast<uint32_t>(p0 >> 32) ^ c[3][b] ^ key[1];
      c[3][b] = static_cast<uint32_t>(p0);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int w = 0; w < 4; ++w) words[b * 4 + w] = c[w][b];
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
            const float value = cpu::load(x + i + k) * scale;
            cpu::store(y + i + k, words[k] >= threshold ? value : 0.0f);
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
