// What both codes of a tile (block_code.h, packed_code.h) ask of the eight values of a group, as ZigzagBlock::coded has them.
// Writing side.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/block_code.h"
#include "dlpipe/io/data/codec/coef/intrinsics.h"

namespace dlpipe::data::coef {

struct GroupWidth {
  int bits;  // of each value, as many as the widest needs
  bool
      fits_bytes;  // a reader may lay the values out as bytes with their signs; of 8 bits it takes seven at once
};

/// Of a group that isn't empty; `mask` says which values aren't zero.
DLPIPE_COEF_INLINE GroupWidth group_width(const uint16_t* coded, uint32_t mask) {
  std::array<uint64_t, 2> halves;
  std::memcpy(halves.data(), coded, sizeof halves);
  uint64_t any = halves[0] | halves[1];
  any |= any >> 32;
  any |= any >> 16;
  const int bits = std::max(1, static_cast<int>(std::bit_width(any & 0xffff)));
  if (bits < 8) return {bits, true};
  constexpr uint16_t kLargestByte = 2 * 127 - 1;  // with its sign
  return {bits, bits == 8 && mask != 0xff && *std::max_element(coded, coded + 8) <= kLargestByte};
}

#if defined(__x86_64__)
/// Puts the values of `mask` at once, where they have `width` <= 8 bits and at most 56 together; needs BMI2. `out` is a
/// BitWriter or BitCursor.
template <class Bits>
DLPIPE_COEF_INLINE void put_as_bytes(const uint16_t* coded, uint32_t mask, int width, Bits& out) {
  const __m128i words = _mm_load_si128(reinterpret_cast<const __m128i*>(coded));
  const auto bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
  const uint64_t fields = Deposit::present(mask) * ((1u << width) - 1);
  out.put(Deposit::pext(bytes, fields), std::popcount(fields));
}
#endif

}  // namespace dlpipe::data::coef
