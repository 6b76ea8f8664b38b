#include "dlpipe/io/data/codec/coef/block_code.h"

#include <bit>
#include <cstdlib>
#include <utility>

#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/group_values.h"
#include "dlpipe/io/data/codec/coef/intrinsics.h"

namespace dlpipe::data::coef {

size_t BitWriter::take(std::vector<std::byte>& out) {
  const auto whole = bytes_.begin() + static_cast<ptrdiff_t>(size_);
  out.insert(out.end(), bytes_.begin(), whole);
  size_t taken = std::exchange(size_, 0);
  for (; held_bits_ > 0; held_bits_ -= 8, held_ >>= 8, ++taken) out.push_back(static_cast<std::byte>(held_));
  held_bits_ = 0;
  return taken;
}

static int bit_length(int value) {
  return std::bit_width(static_cast<unsigned>(std::abs(value)));
}

static uint64_t nonzero_of(const std::array<int16_t, 64>& values) {
#if defined(__x86_64__)
  const auto* from = reinterpret_cast<const __m128i*>(values.data());
  const __m128i zero = _mm_setzero_si128();
  uint64_t zeros = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(from + 2 * i), zero);
    const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(from + 2 * i + 1), zero);
    zeros |= static_cast<uint64_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) << (16 * i);
  }
  return ~zeros;
#else
  uint64_t nonzero = 0;
  for (size_t i = 0; i < 64; ++i) nonzero |= uint64_t{values[i] != 0} << i;
  return nonzero;
#endif
}

static void fill_portable(const int16_t* natural, ZigzagBlock& block) {
#pragma GCC unroll 64
  for (size_t i = 0; i < 64; ++i) block.values[i] = natural[kZigzag[i]];
  block.nonzero = nonzero_of(block.values);
  for (size_t i = 0; i < 64; ++i) {
    const int16_t value = block.values[i];
    const int16_t minus = static_cast<int16_t>(value >> 15);
    const auto size = static_cast<uint16_t>((value ^ minus) - minus - 1);
    block.coded[i] = value == 0 ? uint16_t{0} : static_cast<uint16_t>(size << 1 | (minus & 1));
  }
}

#if defined(__x86_64__)
/// Where the bytes of a vector of rows i (lower half) and 7 - i (upper half) go in one of groups g and 7 - g, which
/// mirror each other; 0x80: nowhere.
struct MirroredShuffles {
  alignas(32) std::array<std::array<std::array<uint8_t, 32>, 8>, 4> at;  // [g][i]
};
constexpr MirroredShuffles make_mirrored_shuffles() {
  MirroredShuffles all{};
  for (size_t group = 0; group < 4; ++group) {
    for (size_t row = 0; row < 8; ++row) {
      for (size_t half = 0; half < 2; ++half) {
        for (size_t i = 0; i < 8; ++i) {
          const size_t natural = kZigzag[8 * (half == 0 ? group : 7 - group) + i];
          const bool is_here = natural / 8 == (half == 0 ? row : 7 - row);
          for (size_t byte = 0; byte < 2; ++byte)
            all.at[group][row][16 * half + 2 * i + byte] =
                is_here ? static_cast<uint8_t>(2 * (natural % 8) + byte) : uint8_t{0x80};
        }
      }
    }
  }
  return all;
}

/// Group `kGroup` and its mirror, of which values come from rows kFirst to kLast alone.
template <size_t kGroup, size_t kFirst, size_t kLast>
__attribute__((target("avx2"), always_inline)) static inline __m256i mirrored_groups(
    const __m256i (&rows)[8]) {
  static constexpr MirroredShuffles kShuffles = make_mirrored_shuffles();
  __m256i groups = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (size_t row = kFirst; row <= kLast; ++row) {
    const auto* const shuffle = reinterpret_cast<const __m256i*>(kShuffles.at[kGroup][row].data());
    groups = _mm256_or_si256(groups, _mm256_shuffle_epi8(rows[row], _mm256_load_si256(shuffle)));
  }
  return groups;
}

/// Stores a group and its mirror; answers which of them are zero, in words.
__attribute__((target("avx2"), always_inline)) static inline __m256i put_mirrored(__m256i values,
                                                                                  size_t group,
                                                                                  ZigzagBlock& block) {
  const __m256i zero = _mm256_cmpeq_epi16(values, _mm256_setzero_si256());
  const __m256i minus = _mm256_srai_epi16(values, 15);
  const __m256i one = _mm256_set1_epi16(1);
  const __m256i size = _mm256_sub_epi16(_mm256_sub_epi16(_mm256_xor_si256(values, minus), minus), one);
  const __m256i sign = _mm256_and_si256(minus, one);
  const __m256i coded = _mm256_andnot_si256(zero, _mm256_or_si256(_mm256_slli_epi16(size, 1), sign));
  const auto store = [](__m128i words, void* to) { _mm_store_si128(static_cast<__m128i*>(to), words); };
  store(_mm256_castsi256_si128(values), block.values.data() + 8 * group);
  store(_mm256_extracti128_si256(values, 1), block.values.data() + 8 * (7 - group));
  store(_mm256_castsi256_si128(coded), block.coded.data() + 8 * group);
  store(_mm256_extracti128_si256(coded, 1), block.coded.data() + 8 * (7 - group));
  return zero;
}

/// The same with AVX2: rows of eight, shuffled and put together.
__attribute__((target("avx2"))) static void fill_avx2(const int16_t* natural, ZigzagBlock& block) {
  __m256i rows[8];
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    const auto* const lower = reinterpret_cast<const __m128i*>(natural + 8 * i);
    const auto* const upper = reinterpret_cast<const __m128i*>(natural + 8 * (7 - i));
    rows[i] =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(lower)), _mm_loadu_si128(upper), 1);
  }
  const __m256i zero0 = put_mirrored(mirrored_groups<0, 0, 2>(rows), 0, block);
  const __m256i zero1 = put_mirrored(mirrored_groups<1, 0, 4>(rows), 1, block);
  const __m256i zero2 = put_mirrored(mirrored_groups<2, 1, 6>(rows), 2, block);
  const __m256i zero3 = put_mirrored(mirrored_groups<3, 0, 3>(rows), 3, block);
  // Groups 0, 1, 7, 6 and 2, 3, 5, 4: a byte each.
  const auto outer = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(zero0, zero1)));
  const auto inner = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(zero2, zero3)));
  const uint32_t low = (outer & 0xffff) | inner << 16;
  const uint32_t high = __builtin_bswap32(outer >> 16 | (inner & 0xffff0000));
  block.nonzero = ~(uint64_t{high} << 32 | low);
}

/// The same with AVX-512's permutation of 64 words: a tenth of the time.
__attribute__((target("avx512f,avx512bw"))) static void fill_avx512(const int16_t* natural,
                                                                    ZigzagBlock& block) {
  alignas(64) static constexpr auto kFrom = [] {
    std::array<uint16_t, 64> from{};
    for (size_t i = 0; i < 64; ++i) from[i] = kZigzag[i];
    return from;
  }();
  const __m512i first = _mm512_loadu_si512(natural);
  const __m512i second = _mm512_loadu_si512(natural + 32);
  block.nonzero = 0;
  for (size_t half = 0; half < 64; half += 32) {
    const __m512i values = _mm512_permutex2var_epi16(first, _mm512_load_si512(kFrom.data() + half), second);
    const __mmask32 nonzero = _mm512_test_epi16_mask(values, values);
    const __m512i minus = _mm512_srai_epi16(values, 15);
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i size = _mm512_sub_epi16(_mm512_sub_epi16(_mm512_xor_si512(values, minus), minus), one);
    const __m512i coded = _mm512_or_si512(_mm512_slli_epi16(size, 1), _mm512_and_si512(minus, one));
    _mm512_storeu_si512(block.values.data() + half, values);
    _mm512_storeu_si512(block.coded.data() + half, _mm512_maskz_mov_epi16(nonzero, coded));
    block.nonzero |= uint64_t{nonzero} << half;
  }
}
#endif

std::vector<ZigzagFill> zigzag_fills() {
  std::vector<ZigzagFill> fills = {fill_portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) fills.push_back(fill_avx2);
  if (__builtin_cpu_supports("avx512bw")) fills.push_back(fill_avx512);
#endif
  return fills;
}

void ZigzagBlock::fill(const int16_t* natural) {
  static const ZigzagFill best = zigzag_fills().back();
  best(natural, *this);
  coded[0] = 0;  // the DC is coded by itself
}

BlockSymbols symbols_of(const ZigzagBlock& zigzag, int dc_before) {
  BlockSymbols block;
  const int difference = zigzag.values[0] - dc_before;
  block.dc_class = bit_length(difference);
  block.dc_bits = static_cast<uint32_t>(difference < 0 ? difference - 1 + (1 << block.dc_class) : difference);
  const uint64_t ac = zigzag.nonzero & ~uint64_t{1};
  for (int group = 0; group < kGroups && ac >> (8 * group) != 0; ++group) {
    const auto mask = static_cast<uint8_t>(ac >> (8 * group));
    if (mask == 0) continue;
    const GroupWidth width = group_width(zigzag.coded.data() + ptrdiff_t{8} * group, mask);
    block.mask[group] = mask;
    block.width[group] = static_cast<uint8_t>(width.bits);
    block.token[group] = width.fits_bytes ? block.width[group] : uint8_t{kWide};
    block.groups = group + 1;
  }
  return block;
}

#if defined(__x86_64__)
/// A group whose coded values fit bytes, at once.
DLPIPE_COEF_TARGET static void put_bytes(const ZigzagBlock& block, int group, uint32_t mask, int width,
                                         BitWriter& out) {
  put_as_bytes(block.coded.data() + ptrdiff_t{8} * group, mask, width, out);
}
#endif

void put_values(const ZigzagBlock& block, int group, uint32_t mask, int width, BitWriter& out) {
#if defined(__x86_64__)
  static const bool has_deposit = Deposit::available();
  const bool fits = width < 8 || (width == 8 && mask != 0xff);  // into one put
  if (fits && has_deposit) return put_bytes(block, group, mask, width, out);
#endif
  uint64_t bits = 0;
  int count = 0;
  for (; mask != 0; mask &= mask - 1) {
    const size_t at = size_t{8} * static_cast<size_t>(group) + static_cast<size_t>(std::countr_zero(mask));
    bits |= uint64_t{block.coded[at]} << count;
    count += width;
    if (count + width <= 56) continue;
    out.put(bits, count);
    bits = 0;
    count = 0;
  }
  out.put(bits, count);
}

void TileWriter::add(const ZigzagBlock& zigzag) {
  const EncodeTables& codes = encode_tables();
  const BlockSymbols block = symbols_of(zigzag, dc_);
  out_.put(codes.dc[plane_][dc_context_][block.dc_class]);
  out_.put(block.dc_bits, block.dc_class);
  dc_ = zigzag.values[0];
  dc_context_ = block.dc_class;
  int before = kTokensBefore - 1;
  for (int group = 0; group < block.groups; ++group) {
    const int width = block.width[group];
    const int token = block.token[group];
    out_.put(codes.token[token_context(plane_, group, before)][token]);
    before = token;
    if (width == 0) continue;
    if (token == kWide) out_.put(static_cast<uint64_t>(width - 8), 4);
    out_.put(codes.mask[mask_context(plane_, group, width)][block.mask[group]]);
    put_values(zigzag, group, block.mask[group], width, out_);
  }
  if (block.groups < kGroups) out_.put(codes.token[token_context(plane_, block.groups, before)][kEnd]);
}

}  // namespace dlpipe::data::coef
