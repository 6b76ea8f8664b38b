#include "io/data/codec/coef/tile_code.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "io/data/codec/coef/bits.h"

namespace dlpipe::data::coef {
namespace {

// Lengths of codes, one character per symbol: 0 (no code) to 9, a for 10.
#include "io/data/codec/coef/code_lengths.inc"

int length_of(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

uint16_t reversed(uint32_t bits, int length) {
  uint32_t out = 0;
  for (int i = 0; i < length; ++i) out |= ((bits >> i) & 1) << (length - 1 - i);
  return static_cast<uint16_t>(out);
}

/// Canonical codes: shorter before longer, then by symbol.
void assign(std::string_view lengths, std::span<Code> codes) {
  uint32_t next = 0;
  for (int length = 1; length <= 15; ++length) {
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (length_of(lengths[symbol]) != length) continue;
      codes[symbol] = {reversed(next++, length), static_cast<uint8_t>(length)};
    }
    next <<= 1;
  }
}

void fill(std::span<const Code> codes, std::span<uint16_t> table, bool counts_bits) {
  for (size_t symbol = 0; symbol < codes.size(); ++symbol) {
    const Code code = codes[symbol];
    if (code.length == 0) continue;
    const int set = counts_bits ? std::popcount(symbol) : 0;
    const auto entry =
        static_cast<uint16_t>(symbol | size_t{code.length} << 8 | static_cast<size_t>(set) << 12);
    for (size_t i = code.bits; i < table.size(); i += size_t{1} << code.length) table[i] = entry;
  }
}

EncodeTables make_encode_tables() {
  EncodeTables tables{};
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int context = 0; context < kDcContexts; ++context)
      assign(kDcLengths[plane][context], tables.dc[plane][context]);
  }
  for (int context = 0; context < kTokenContexts; ++context)
    assign(kTokenLengths[context], tables.token[context]);
  for (int context = 0; context < kMaskContexts; ++context)
    assign(kMaskLengths[context], tables.mask[context]);
  return tables;
}

DecodeTables make_decode_tables() {
  const EncodeTables& codes = encode_tables();
  DecodeTables tables{};
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int context = 0; context < kDcContexts; ++context)
      fill(codes.dc[plane][context], tables.dc[plane][context], false);
  }
  constexpr size_t kMaskTable = size_t{1} << kMaskMaxLength;
  for (size_t context = 0; context < kMaskContexts; ++context)
    fill(codes.mask[context], std::span(tables.mask).subspan(context * kMaskTable, kMaskTable), true);
  for (int plane = 0; plane < kPlaneClasses; ++plane) {
    for (int group = 0; group < kTokenGroups; ++group) {
      auto& rows = tables.token[plane][group];
      for (int before = 0; before < kTokensBefore; ++before)
        fill(codes.token[token_context(plane, group, before)],
             rows[before == kTokensBefore - 1 ? DecodeTables::kFirstRow : before], false);
      rows[kEnd].fill(kEnd);
    }
    for (int group = 0; group < kMaskGroups; ++group) {
      for (int token = 0; token < kTokens; ++token) {
        const bool empty = token == kEmpty || token == kEnd;
        const auto context = static_cast<uint32_t>(empty ? kMaskContexts : mask_context(plane, group, token));
        tables.mask_place[plane][group][token] = {context << kMaskMaxLength,
                                                  empty ? 0 : (1u << kMaskMaxLength) - 1};
      }
    }
  }
  return tables;
}

}  // namespace

const EncodeTables& encode_tables() {
  static const EncodeTables tables = make_encode_tables();
  return tables;
}

const DecodeTables& decode_tables() {
  static const DecodeTables tables = make_decode_tables();
  return tables;
}

size_t BitWriter::take(std::vector<std::byte>& out) {
  const auto whole = bytes_.begin() + static_cast<ptrdiff_t>(size_);
  out.insert(out.end(), bytes_.begin(), whole);
  size_t taken = std::exchange(size_, 0);
  for (; held_bits_ > 0; held_bits_ -= 8, held_ >>= 8, ++taken) out.push_back(static_cast<std::byte>(held_));
  held_bits_ = 0;
  return taken;
}

namespace {

// What both forms need to know about the eight values of a group (of ZigzagBlock::coded).

struct GroupWidth {
  int bits;  // of each value, as many as the widest needs
  bool
      fits_bytes;  // a reader can unpack the values to bytes with their signs; of 8 bits, at most seven at once
};

/// For a group that is not empty; `mask` says which values are not zero.
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
/// Writes the values of `mask` at once if they have `width` <= 8 bits and at most 56 together; needs BMI2. `out` is a BitWriter
/// or BitCursor.
template <class Bits>
DLPIPE_COEF_INLINE void put_as_bytes(const uint16_t* coded, uint32_t mask, int width, Bits& out) {
  const __m128i words = _mm_load_si128(reinterpret_cast<const __m128i*>(coded));
  const auto bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
  const uint64_t fields = Deposit::present(mask) * ((1u << width) - 1);
  out.put(Deposit::pext(bytes, fields), std::popcount(fields));
}
#endif

}  // namespace

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

/// Group `kGroup` and its mirror, whose values come only from rows kFirst to kLast.
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

/// Stores a group and its mirror; returns which of them are zero, in words.
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
  coded[0] = 0;  // the DC is coded separately
}

// Coded tiles.

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
/// Writes a group whose coded values fit bytes, all at once.
DLPIPE_COEF_TARGET static void put_bytes(const ZigzagBlock& block, int group, uint32_t mask, int width,
                                         BitWriter& out) {
  put_as_bytes(block.coded.data() + ptrdiff_t{8} * group, mask, width, out);
}
#endif

void put_values(const ZigzagBlock& block, int group, uint32_t mask, int width, BitWriter& out) {
#if defined(__x86_64__)
  static const bool has_deposit = Deposit::available();
  const bool fits = width < 8 || (width == 8 && mask != 0xff);  // into one call of put()
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

namespace {

// Packed tiles.

uint32_t folded(int value) {  // the sign in the lowest bit
  return static_cast<uint32_t>(value < 0 ? -2 * value - 1 : 2 * value);
}

void put_dc(std::span<const ZigzagBlock> blocks, BitCursor& out) {
  const auto dc = [&](size_t i) { return int{blocks[i].values[0]}; };
  uint32_t any = 0;  // has the bit width of the largest difference
  bool fits = true;
  for (size_t i = 0; i < blocks.size(); ++i) {
    constexpr int kLimit = 1 << (kFirstDcBits - 1);
    fits = fits && dc(i) >= -kLimit && dc(i) < kLimit;
    if (i > 0) any |= folded(dc(i) - dc(i - 1));
  }
  const int width = std::bit_width(any);
  out.put(static_cast<uint64_t>(fits ? width : kRawDc), kDcWidthBits);
  const auto first = static_cast<uint16_t>(dc(0));
  out.put(fits ? first & ((1u << kFirstDcBits) - 1) : 0, kFirstDcBits);
  if (fits) {
    for (size_t i = 1; i < blocks.size(); ++i) out.put(folded(dc(i) - dc(i - 1)), width);
  } else {
    for (size_t i = 0; i < blocks.size(); ++i) out.put(static_cast<uint16_t>(dc(i)), kRawDcBits);
  }
}

/// The stored code for the width of a non-empty group (packed_width converts it to the width).
DLPIPE_COEF_INLINE int field_of(const uint16_t* values, uint32_t mask) {
  const GroupWidth width = group_width(values, mask);
  return width.fits_bytes ? width.bits : std::max(width.bits, kWidestByte + 2) - 1;
}

DLPIPE_COEF_INLINE void put_one_by_one(const uint16_t* values, uint32_t mask, int width, BitCursor& out) {
  for (; mask != 0; mask &= mask - 1) out.put(values[std::countr_zero(mask)], width);
}

struct Groups {
  int count = 0;  // up to the last that is not empty
  bool narrow = true;
  std::array<uint8_t, kGroups> mask;
  std::array<uint8_t, kGroups> field;  // 0: empty
};

DLPIPE_COEF_INLINE Groups groups_of(const ZigzagBlock& block) {
  Groups groups;
  const uint64_t ac = block.nonzero & ~uint64_t{1};
  groups.count = (static_cast<int>(std::bit_width(ac)) + kGroups - 1) / kGroups;
  for (int group = 0; group < groups.count; ++group) {
    const auto mask = static_cast<uint8_t>(ac >> (kGroups * group));
    groups.mask[group] = mask;
    groups.field[group] =
        static_cast<uint8_t>(mask == 0 ? 0 : field_of(block.coded.data() + ptrdiff_t{kGroups} * group, mask));
    groups.narrow = groups.narrow && groups.field[group] < 1 << narrow_width_bits(group);
  }
  return groups;
}

/// Kind and widths; then masks.
DLPIPE_COEF_INLINE void put_head(Groups& groups, BitCursor& out) {
  const int used = groups.count;
  if (!groups.narrow && used < kFewestWideGroups) groups.mask[used] = groups.field[used] = 0;
  const int count = groups.narrow ? used : std::max(used, kFewestWideGroups);
  auto bits = static_cast<uint64_t>(groups.narrow ? count : kFirstWideKind + count - kFewestWideGroups);
  int size = kKindBits;
  for (int group = 0; group < count; ++group) {
    bits |= uint64_t{groups.field[group]} << size;
    size += groups.narrow ? narrow_width_bits(group) : kWideWidthBits;
  }
  out.put(bits, size);
  bits = 0;
  size = 0;
  for (int group = 0; group < used; ++group) {
    if (groups.mask[group] == 0) continue;
    const int dc = group == 0 ? 1 : 0;  // has no bit in its group's mask
    bits |= uint64_t{groups.mask[group]} >> dc << size;
    size += kGroups - dc;
  }
  constexpr int kHalf = 32;
  out.put(bits & 0xffffffff, std::min(size, kHalf));
  if (size > kHalf) out.put(bits >> kHalf, size - kHalf);
}

// Compiled twice: BMI2 extracts a whole group of values at once.
template <bool kBmi2>
DLPIPE_COEF_INLINE void put_block(const ZigzagBlock& block, BitCursor& out) {
  Groups groups = groups_of(block);
  put_head(groups, out);
  for (int group = 0; group < groups.count; ++group) {
    if (groups.mask[group] == 0) continue;
    const uint16_t* const values = block.coded.data() + ptrdiff_t{kGroups} * group;
    const int width = packed_width(groups.field[group]);
#if defined(__x86_64__)
    if constexpr (kBmi2) {
      if (width <= kWidestByte) {
        put_as_bytes(values, groups.mask[group], width, out);
        continue;
      }
    }
#endif
    put_one_by_one(values, groups.mask[group], width, out);
  }
}

#if defined(__x86_64__)
DLPIPE_COEF_TARGET void put_tile_bmi2(std::span<const ZigzagBlock> blocks, BitWriter& out) {
  BitCursor cursor = out.begin(kMaxPackedTileBytes);
  put_dc(blocks, cursor);
  for (const ZigzagBlock& block : blocks) put_block<true>(block, cursor);
  out.end(cursor);
}
#endif

}  // namespace

void put_packed_tile_portable(std::span<const ZigzagBlock> blocks, BitWriter& out) {
  BitCursor cursor = out.begin(kMaxPackedTileBytes);
  put_dc(blocks, cursor);
  for (const ZigzagBlock& block : blocks) put_block<false>(block, cursor);
  out.end(cursor);
}

void put_packed_tile(std::span<const ZigzagBlock> blocks, BitWriter& out) {
#if defined(__x86_64__)
  static const auto best = Deposit::available() ? put_tile_bmi2 : put_packed_tile_portable;
#else
  constexpr auto best = put_packed_tile_portable;
#endif
  best(blocks, out);
}

}  // namespace dlpipe::data::coef
