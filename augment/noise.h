// Random numbers for every value of an image: pure functions of (key, row, place in the row), so that threads and instruction
// sets do not matter. Uses Philox (dlpipe/random.h); the loops are compiled once per instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/image.h"

namespace dlpipe::augment {

/// How OpDraw::key is drawn.
template <class Stream>
uint64_t draw_key(Stream& rng) {
  const uint64_t high = rng.next_u32();
  return ((high << 32) | rng.next_u32()) | 1;  // 0 means "none"
}

/// Uniform in 0 .. 2^16 - 1; `out` must have room for kNoiseBlock more than its size.
void uniform_row(uint64_t key, uint32_t row, std::span<uint16_t> out);
inline constexpr int kNoiseBlock = 128;

/// Quantiles of the standard normal distribution at (i + 1/2) / 4096, with 13 bits after the point: a uniform number's
/// highest 12 bits make a normal one, of at most 3.67.
std::span<const int16_t> normal_quantiles();
inline constexpr int kNormalBits = 13;

/// out = in plus normal noise of a standard deviation per value (8 bits after the point), plus `offset` (8 bits after the
/// point), rounded and clipped. `work` belongs to the thread.
void add_normal_noise(uint64_t key, const std::array<int, 256>& deviation, int offset,
                      const ConstImageView& in, const ImageView& out, std::vector<std::byte>& work);

}  // namespace dlpipe::augment
