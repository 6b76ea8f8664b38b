#include "dlpipe/io/data/codec/coef/packed_reader.h"

#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cstring>

#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/intrinsics.h"
#include "dlpipe/io/data/codec/coef/packed_code.h"

namespace dlpipe::data::coef {
namespace {

/// What a block's kind says.
struct Kind {
  uint64_t width_fields = 0;  // where the fields of widths go, a byte per group
  uint8_t bits = 0;           // of the kind and the widths
  uint8_t groups = 0;
};

constexpr std::array<Kind, 1 << kKindBits> make_kinds() {
  std::array<Kind, 1 << kKindBits> kinds{};
  for (int number = 0; number < 1 << kKindBits; ++number) {
    Kind& kind = kinds[static_cast<size_t>(number)];
    const bool wide = number >= kFirstWideKind;
    kind.groups = static_cast<uint8_t>(wide ? number - kFirstWideKind + kFewestWideGroups : number);
    kind.bits = kKindBits;
    for (int group = 0; group < kind.groups; ++group) {
      const int width = wide ? kWideWidthBits : narrow_width_bits(group);
      kind.width_fields |= uint64_t{(1u << width) - 1} << (8 * group);
      kind.bits = static_cast<uint8_t>(kind.bits + width);
    }
  }
  return kinds;
}
constexpr std::array<Kind, 1 << kKindBits> kKinds = make_kinds();

/// At least 57 bits from bit `at` on.
DLPIPE_COEF_INLINE uint64_t bits_at(const std::byte* bytes, size_t at) {
  uint64_t word;
  std::memcpy(&word, bytes + at / 8, sizeof word);
  return word >> (at % 8);
}
/// 64 of them.
DLPIPE_COEF_INLINE uint64_t all_bits_at(const std::byte* bytes, size_t at) {
  uint64_t more;
  std::memcpy(&more, bytes + at / 8 + sizeof more, sizeof more);
  return bits_at(bytes, at) | more << 1 << (63 - at % 8);
}

/// What stands before a block's values.
struct BlockHead {
  uint64_t widths;   // a byte per group: its field
  uint64_t present;  // bit i: zigzag position i isn't zero
  uint32_t groups;
};

/// Moves `at` behind it.
template <class How>
DLPIPE_COEF_INLINE BlockHead read_block_head(const std::byte* bytes, size_t& at) {
  const uint64_t word = bits_at(bytes, at);
  const Kind& kind = kKinds[word & ((1 << kKindBits) - 1)];
  BlockHead head;
  head.groups = kind.groups;
  head.widths = How::pdep(word >> kKindBits, kind.width_fields);
  at += kind.bits;
  // A mask of eight bits for every group with a width; the first's lacks the DC's bit.
  const uint64_t some = ((head.widths + kOnes * 0x7f) >> 7) & kOnes;
  const uint64_t fields = some * 0xff & ~uint64_t{1};
  head.present = How::pdep(all_bits_at(bytes, at), fields);
  at += static_cast<size_t>(std::popcount(fields));
  return head;
}

/// 1 in the bytes of groups whose values may be too large for a byte.
DLPIPE_COEF_INLINE uint64_t wide_groups(const BlockHead& head) {
  return ((head.widths + kOnes * (0x7f - 8)) >> 7) & kOnes;
}

/// One group's values into its eight bytes; answers how many bits they took.
template <class How>
DLPIPE_COEF_INLINE uint32_t read_packed_group(const std::byte* bytes, size_t at, const BlockHead& head,
                                              size_t group, uint8_t* values) {
  const auto width = static_cast<uint32_t>(head.widths >> (8 * group) & 0xff);
  const uint64_t present = How::present(static_cast<uint32_t>(head.present >> (8 * group) & 0xff));
  const uint64_t fields = present * ((1u << width) - 1);
  const uint64_t laid = How::pdep(bits_at(bytes, at), fields);
  // Eight sums: damaged values of eight bits must not carry into their neighbours.
  const uint64_t coded = ((laid & kOnes * 0x7f) + 2 * present) ^ (laid & kOnes * 0x80);
  std::memcpy(values + 8 * group, &coded, sizeof coded);
  return static_cast<uint32_t>(std::popcount(fields));
}

/// A wide group's values, one by one; answers where they end.
DLPIPE_COEF_INLINE size_t store_wide(const std::byte* bytes, size_t at, const BlockHead& head, size_t group,
                                     size_t block, TileBlocks& blocks) {
  const auto width = static_cast<uint32_t>(packed_width(static_cast<int>(head.widths >> (8 * group) & 0xff)));
  const uint8_t* const positions = kZigzag.data() + 8 * group;
  TileBlocks::Wide* to = blocks.wide.data() + blocks.wide_count;
  for (uint64_t mask = head.present >> (8 * group) & 0xff; mask != 0; mask &= mask - 1, at += width) {
    const auto coded = static_cast<uint32_t>(bits_at(bytes, at) & ((1u << width) - 1));
    const uint32_t minus = 0 - (coded & 1);  // no branch: signs can't be foretold
    *to++ = {static_cast<uint8_t>(block), positions[std::countr_zero(mask)],
             static_cast<int16_t>((((coded >> 1) + 1) ^ minus) - minus)};
  }
  blocks.wide_count = static_cast<int>(to - blocks.wide.data());
  return at;
}

/// Bits of a block's values, where none are wide: a bit of the widths at a time, which is known before the
/// masks.
DLPIPE_COEF_INLINE size_t count_bits(const BlockHead& head) {
  size_t bits = 0;
  for (int plane = 0; plane < 4; ++plane) {
    const uint64_t groups = ((head.widths >> plane) & kOnes) * 0xff;
    bits += static_cast<size_t>(std::popcount(groups & head.present)) << plane;
  }
  return bits;
}

/// Whether a group has eight values of eight bits, which is more than is read at once; a writer takes ten.
bool is_overfull(const BlockHead& head) {
  for (size_t group = 0; group < kGroups; ++group) {
    if ((head.widths >> (8 * group) & 0xff) == 8 && (head.present >> (8 * group) & 0xff) == 0xff) return true;
  }
  return false;
}

/// Fills blocks.dc and answers where the first block begins; 0 for what no writer writes.
DLPIPE_COEF_INLINE size_t read_dc(const Tile& tile, TileBlocks& blocks) {
  const auto head = static_cast<uint32_t>(bits_at(tile.bytes, 0));
  const uint32_t width = head & ((1u << kDcWidthBits) - 1);
  size_t at = kDcWidthBits + kFirstDcBits;
  if (width > kMaxDcWidth) {
    if (width != kRawDc) return 0;
    for (size_t i = 0; i < static_cast<size_t>(tile.blocks); ++i, at += kRawDcBits)
      blocks.dc[i][0] = static_cast<int16_t>(bits_at(tile.bytes, at));
    return at;
  }
  int dc = static_cast<int>(head << (32 - kDcWidthBits - kFirstDcBits)) >> (32 - kFirstDcBits);
  blocks.dc[0][0] = static_cast<int16_t>(dc);
  for (size_t i = 1; i < static_cast<size_t>(tile.blocks); ++i, at += width) {
    const auto coded = static_cast<uint32_t>(bits_at(tile.bytes, at)) & ((1u << width) - 1);
    dc += static_cast<int>(coded >> 1) ^ -static_cast<int>(coded & 1);
    blocks.dc[i][0] = static_cast<int16_t>(dc);
  }
  return at;
}

/// A tile being read.
template <class How, class Values>
class PackedLane {
 public:
  DLPIPE_COEF_INLINE PackedLane(const Tile& tile, TileBlocks& blocks)
      : tile_(tile), blocks_(blocks), at_(read_dc(tile, blocks)), limit_(8 * (tile.size + sizeof(uint64_t))) {
    blocks.wide_count = 0;
    blocks.wide_blocks = 0;
  }
  /// False for what no writer writes.
  DLPIPE_COEF_INLINE bool read(int number) {
    const auto block = static_cast<size_t>(number);
    const BlockHead head = read_block_head<How>(tile_.bytes, at_);
    blocks_.groups[block] = static_cast<uint8_t>(head.groups);
    if (wide_groups(head) != 0) [[unlikely]] {
      if (is_overfull(head)) return false;
      at_ = Values::read_wide(tile_.bytes, at_, head, block, blocks_);
      return at_ <= limit_;
    }
    const size_t values = at_;
    at_ += count_bits(head);
    return (number < tile_.begin || Values::read(tile_.bytes, values, head, blocks_.values[block].data())) &&
           at_ <= limit_;
  }
  bool begins_well() const { return at_ != 0; }
  bool ends_well() const {
    const size_t used = (at_ + 7) / 8;
    return tile_.end == tile_.blocks ? used == tile_.size : used <= tile_.size;
  }

 private:
  const Tile& tile_;
  TileBlocks& blocks_;
  size_t at_;  // the next bit
  size_t limit_;
};

template <class How, class Values>
DLPIPE_COEF_INLINE bool packed_one(const Tile& tile, TileBlocks& blocks) {
  PackedLane<How, Values> lane(tile, blocks);
  bool fine = lane.begins_well();
  for (int block = 0; fine && block < tile.end; ++block) fine = lane.read(block);
  return fine && lane.ends_well();
}

/// In lockstep: where a block begins is known when the one before it has been looked at.
template <class How, class Values>
DLPIPE_COEF_INLINE bool packed_two(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                   TileBlocks& blocks_b) {
  PackedLane<How, Values> a(tile_a, blocks_a);
  PackedLane<How, Values> b(tile_b, blocks_b);
  bool fine = a.begins_well() && b.begins_well();
  const int both = tile_a.end < tile_b.end ? tile_a.end : tile_b.end;
  for (int block = 0; fine && block < both; ++block) {
    const bool fine_a = a.read(block);
    const bool fine_b = b.read(block);
    fine = fine_a && fine_b;
  }
  for (int block = both; fine && block < tile_a.end; ++block) fine = a.read(block);
  for (int block = both; fine && block < tile_b.end; ++block) fine = b.read(block);
  return fine && a.ends_well() && b.ends_well();
}

/// Eight coefficients at a time.
template <class How>
struct ByGroups {
  /// False if a group is overfull.
  DLPIPE_COEF_INLINE static bool read(const std::byte* bytes, size_t at, const BlockHead& head,
                                      uint8_t* values) {
    std::memset(values, 0, 64);
    uint32_t longest = 0;
    for (size_t group = 0; group < head.groups; ++group) {
      const uint32_t bits = read_packed_group<How>(bytes, at, head, group, values);
      longest = bits > longest ? bits : longest;
      at += bits;
    }
    return longest < 64;
  }
  /// A block with wide groups; answers where it ends. Out of line: rare, and so that what calls it stays
  /// small.
  __attribute__((noinline)) static size_t read_wide(const std::byte* bytes, size_t at, const BlockHead& head,
                                                    size_t block, TileBlocks& blocks) {
    uint8_t* const values = blocks.values[block].data();
    std::memset(values, 0, 64);
    blocks.wide_blocks |= 1u << block;
    const uint64_t wide = wide_groups(head);
    for (size_t group = 0; group < head.groups; ++group)
      at = (wide >> (8 * group) & 1) != 0 ? store_wide(bytes, at, head, group, block, blocks)
                                          : at + read_packed_group<How>(bytes, at, head, group, values);
    return at;
  }
};

DLPIPE_COEF_TARGET bool packed_one_bmi2(const Tile& tile, TileBlocks& blocks) {
  return packed_one<Deposit, ByGroups<Deposit>>(tile, blocks);
}
DLPIPE_COEF_TARGET bool packed_two_bmi2(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                        TileBlocks& blocks_b) {
  return packed_two<Deposit, ByGroups<Deposit>>(tile_a, blocks_a, tile_b, blocks_b);
}
bool packed_one_portable(const Tile& tile, TileBlocks& blocks) {
  return packed_one<Portable, ByGroups<Portable>>(tile, blocks);
}
bool packed_two_portable(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b) {
  return packed_two<Portable, ByGroups<Portable>>(tile_a, blocks_a, tile_b, blocks_b);
}

#if defined(__x86_64__)

#define DLPIPE_COEF_AVX512                                                                      \
  __attribute__((                                                                               \
      target("bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2," \
             "avx512bitalg")))

/// By width, for one group: where its values begin, counted from its first bit, and which bits they have.
struct alignas(64) GroupTables {
  std::array<uint64_t, 16> begins{};
  std::array<uint64_t, 16> masks{};
};
constexpr GroupTables make_group_tables() {
  GroupTables tables;
  for (uint64_t width = 0; width <= 8; ++width) {
    tables.begins[width] = 0x0706050403020100 * width;
    tables.masks[width] = kOnes * ((1u << width) - 1);
  }
  return tables;
}
constexpr GroupTables kGroupTables = make_group_tables();

/// A whole block at a time: each of eight lanes finds its group's bits, cuts them into bytes, and the bytes
/// of all groups are moved together and then to their positions.
struct ByBlock {
  /// Bits of each group's values, and of all groups up to it, in lanes of 16 bits.
  struct Sizes {
    __m128i bits;
    __m128i sums;
  };
  DLPIPE_COEF_AVX512 static Sizes sizes_of(uint64_t widths, uint64_t present) {
    const __m128i counts = _mm_popcnt_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(present)));
    const __m128i bits = _mm_mullo_epi16(_mm_cvtepu8_epi16(counts),
                                         _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(widths))));
    __m128i sums = _mm_add_epi16(bits, _mm_slli_si128(bits, 2));
    sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 4));
    return {bits, _mm_add_epi16(sums, _mm_slli_si128(sums, 8))};
  }
  /// Stores the values of the groups that `present` names and leaves zeros elsewhere; they lie within 512
  /// bits.
  DLPIPE_COEF_AVX512 static void store(const std::byte* bytes, size_t at, const Sizes& sizes, uint64_t widths,
                                       uint64_t present, uint8_t* values) {
    const __m512i data = _mm512_loadu_si512(bytes + at / 8);
    // Where each group's bits begin, counted from `data`; the byte of that, and the bit in the byte.
    const __m512i begin = _mm512_cvtepu16_epi64(
        _mm_add_epi16(_mm_sub_epi16(sizes.sums, sizes.bits), _mm_set1_epi16(static_cast<short>(at % 8))));
    const __m512i spread = _mm512_set1_epi64(0x0706050403020100);
    const __m512i every = _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0, 0x0808080808080808,
                                           0, 0x0808080808080808, 0);
    const __m512i byte = _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi64(begin, 3), every), spread);
    const __m512i groups = _mm512_permutexvar_epi8(byte, data);
    // Eight values of each.
    const __m512i width = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<int64_t>(widths)));
    const __m512i bit = _mm512_shuffle_epi8(_mm512_and_si512(begin, _mm512_set1_epi64(7)), every);
    const __m512i from =
        _mm512_add_epi8(bit, _mm512_permutex2var_epi64(_mm512_load_si512(kGroupTables.begins.data()), width,
                                                       _mm512_load_si512(kGroupTables.begins.data() + 8)));
    const __m512i mask = _mm512_permutex2var_epi64(_mm512_load_si512(kGroupTables.masks.data()), width,
                                                   _mm512_load_si512(kGroupTables.masks.data() + 8));
    const __m512i coded = _mm512_add_epi8(_mm512_and_si512(_mm512_multishift_epi64_epi8(from, groups), mask),
                                          _mm512_set1_epi8(2));
    // Of each group's eight the first `count` are values.
    const __m512i counts = _mm512_shuffle_epi8(
        _mm512_cvtepu8_epi64(_mm_popcnt_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(present)))), every);
    const __m512i packed = _mm512_maskz_compress_epi8(_mm512_cmplt_epu8_mask(spread, counts), coded);
    _mm512_store_si512(values, _mm512_maskz_expand_epi8(present, packed));
  }
  /// False if a group is overfull.
  DLPIPE_COEF_AVX512 static bool read(const std::byte* bytes, size_t at, const BlockHead& head,
                                      uint8_t* values) {
    const Sizes sizes = sizes_of(head.widths, head.present);
    store(bytes, at, sizes, head.widths, head.present, values);
    return _mm_cmpeq_epi16_mask(sizes.bits, _mm_set1_epi16(64)) == 0;
  }
  DLPIPE_COEF_AVX512 __attribute__((noinline)) static size_t read_wide(const std::byte* bytes, size_t at,
                                                                       const BlockHead& head, size_t block,
                                                                       TileBlocks& blocks) {
    const uint64_t wide = wide_groups(head);
    const uint64_t widths = head.widths + wide;
    const Sizes sizes = sizes_of(widths, head.present);
    const auto bits = static_cast<size_t>(_mm_extract_epi16(sizes.sums, 7));
    if (bits + 7 > 512) return ByGroups<Deposit>::read_wide(bytes, at, head, block, blocks);
    store(bytes, at, sizes, widths, head.present & ~(wide * 0xff), blocks.values[block].data());
    alignas(16) std::array<uint16_t, kGroups> ends;
    _mm_store_si128(reinterpret_cast<__m128i*>(ends.data()), sizes.sums);
    for (uint64_t left = wide; left != 0; left &= left - 1) {
      const auto group = static_cast<size_t>(std::countr_zero(left)) / 8;
      store_wide(bytes, at + (group == 0 ? 0 : ends[group - 1]), head, group, block, blocks);
    }
    blocks.wide_blocks |= 1u << block;
    return at + bits;
  }
};

DLPIPE_COEF_AVX512 bool packed_one_avx512(const Tile& tile, TileBlocks& blocks) {
  return packed_one<Deposit, ByBlock>(tile, blocks);
}
DLPIPE_COEF_AVX512 bool packed_two_avx512(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                          TileBlocks& blocks_b) {
  return packed_two<Deposit, ByBlock>(tile_a, blocks_a, tile_b, blocks_b);
}

#endif

}  // namespace

const PackedReader& portable_packed_reader() {
  static constexpr PackedReader kReader = {packed_one_portable, packed_two_portable};
  return kReader;
}

const PackedReader* bmi2_packed_reader() {
  static constexpr PackedReader kReader = {packed_one_bmi2, packed_two_bmi2};
  return (hwy::SupportedTargets() & HWY_AVX2) != 0 && Deposit::available() ? &kReader : nullptr;
}

const PackedReader* avx512_packed_reader() {
#if defined(__x86_64__)
  static constexpr PackedReader kReader = {packed_one_avx512, packed_two_avx512};
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) != 0) return &kReader;
#endif
  return nullptr;
}

const PackedReader& packed_reader() {
  static const PackedReader& best = []() -> const PackedReader& {
    if (const PackedReader* reader = avx512_packed_reader()) return *reader;
    if (const PackedReader* reader = bmi2_packed_reader()) return *reader;
    return portable_packed_reader();
  }();
  return best;
}

}  // namespace dlpipe::data::coef
