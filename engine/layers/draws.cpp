#include "dlpipe/engine/layers/draws.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "dlpipe/base/portable_formulas.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/engine/core/isa.h"

namespace dlpipe::engine {
namespace {

// Blocks of a stream that are computed side by side: what loops over them hold stays in the first-level cache.
constexpr int kBlocks = 32;

/// Two words as RandomStream::uniform_double() takes them. In halves behind 2^52: AVX2 converts no 64-bit integers.
DLPIPE_INLINE inline double unit_interval(uint32_t high, uint32_t low) {
  const uint64_t bits = ((uint64_t{high} << 32) | low) >> 11;
  constexpr uint64_t kBehind = 0x4330000000000000u;
  const double upper = std::bit_cast<double>((bits >> 32) | kBehind) - 0x1p52;
  const double lower = std::bit_cast<double>((bits & 0xffffffffu) | kBehind) - 0x1p52;
  return (upper * 0x1p32 + lower) * 0x1p-53;
}

/// The two uniform numbers of each block.
struct Uniforms {
  alignas(64) std::array<double, kBlocks> first;
  alignas(64) std::array<double, kBlocks> second;
};

DLPIPE_INLINE inline void draw_blocks(uint64_t seed, uint64_t stream, uint32_t from, Uniforms& uniforms) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    // the counter and key of RandomStream(seed, stream)
    const PhiloxBlock words = philox4x32(
        {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 0xffffffffu, from + i},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    uniforms.first[i] = unit_interval(words[0], words[1]);
    uniforms.second[i] = unit_interval(words[2], words[3]);
  }
}

/// Box and Muller, as RandomStream::normal().
DLPIPE_INLINE inline void make_normal(Uniforms& pairs) {
  for (int i = 0; i < kBlocks; ++i) pairs.first[i] = std::sqrt(-2.0 * log_formula(1.0 - pairs.first[i]));
  for (int i = 0; i < kBlocks; ++i) {
    const double radius = pairs.first[i];
    const SineAndCosine direction = sine_and_cosine_formula(2.0 * std::numbers::pi * pairs.second[i]);
    pairs.first[i] = radius * direction.cosine;
    pairs.second[i] = radius * direction.sine;
  }
}

template <bool kNormal>
void draw(uint64_t seed, uint64_t stream, std::span<double> values) {
  cpu::on_best_isa([=]() DLPIPE_INLINE {
    Uniforms uniforms;
    std::array<double, 2 * kBlocks> in_order;
    for (size_t from = 0; from < values.size(); from += 2 * kBlocks) {
      draw_blocks(seed, stream, static_cast<uint32_t>(from / 2), uniforms);
      if constexpr (kNormal) make_normal(uniforms);
      for (size_t i = 0; i < kBlocks; ++i) {
        in_order[2 * i] = uniforms.first[i];
        in_order[2 * i + 1] = uniforms.second[i];
      }
      std::copy_n(in_order.begin(), std::min(in_order.size(), values.size() - from), values.begin() + from);
    }
  });
}

}  // namespace

void draw_uniform(uint64_t seed, uint64_t stream, std::span<double> values) {
  draw<false>(seed, stream, values);
}
void draw_normal(uint64_t seed, uint64_t stream, std::span<double> values) {
  draw<true>(seed, stream, values);
}

}  // namespace dlpipe::engine
