#include "io/data/codec/coef/tile_reader.h"

#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cstring>

#include "io/data/codec/coef/bits.h"
#include "io/data/codec/coef/tile_code.h"

namespace dlpipe::data::coef {
namespace {

// Packed tiles.

/// The properties of a block's kind.
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
/// 64 bits.
DLPIPE_COEF_INLINE uint64_t all_bits_at(const std::byte* bytes, size_t at) {
  uint64_t more;
  std::memcpy(&more, bytes + at / 8 + sizeof more, sizeof more);
  return bits_at(bytes, at) | more << 1 << (63 - at % 8);
}

/// The fields before a block's values.
struct BlockHead {
  uint64_t widths;   // a byte per group: its field
  uint64_t present;  // bit i: zigzag position i is not zero
  uint32_t groups;
};

/// Reads a block's head and moves `at` past it.
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

/// Returns a byte per group: 1 if its values may be too large for a byte.
DLPIPE_COEF_INLINE uint64_t wide_groups(const BlockHead& head) {
  return ((head.widths + kOnes * (0x7f - 8)) >> 7) & kOnes;
}

/// Writes one group's values into its eight bytes; returns how many bits they took.
template <class How>
DLPIPE_COEF_INLINE uint32_t read_packed_group(const std::byte* bytes, size_t at, const BlockHead& head,
                                              size_t group, uint8_t* values) {
  const auto width = static_cast<uint32_t>(head.widths >> (8 * group) & 0xff);
  const uint64_t present = How::present(static_cast<uint32_t>(head.present >> (8 * group) & 0xff));
  const uint64_t fields = present * ((1u << width) - 1);
  const uint64_t laid = How::pdep(bits_at(bytes, at), fields);
  // Eight sums: corrupt values of eight bits must not carry into their neighbours.
  const uint64_t coded = ((laid & kOnes * 0x7f) + 2 * present) ^ (laid & kOnes * 0x80);
  std::memcpy(values + 8 * group, &coded, sizeof coded);
  return static_cast<uint32_t>(std::popcount(fields));
}

/// Reads a wide group's values one by one; returns where they end.
DLPIPE_COEF_INLINE size_t store_wide(const std::byte* bytes, size_t at, const BlockHead& head, size_t group,
                                     size_t block, TileBlocks& blocks) {
  const auto width = static_cast<uint32_t>(packed_width(static_cast<int>(head.widths >> (8 * group) & 0xff)));
  const uint8_t* const positions = kZigzag.data() + 8 * group;
  TileBlocks::Wide* to = blocks.wide.data() + blocks.wide_count;
  for (uint64_t mask = head.present >> (8 * group) & 0xff; mask != 0; mask &= mask - 1, at += width) {
    const auto coded = static_cast<uint32_t>(bits_at(bytes, at) & ((1u << width) - 1));
    const uint32_t minus = 0 - (coded & 1);  // no branch: signs are unpredictable
    *to++ = {static_cast<uint8_t>(block), positions[std::countr_zero(mask)],
             static_cast<int16_t>((((coded >> 1) + 1) ^ minus) - minus)};
  }
  blocks.wide_count = static_cast<int>(to - blocks.wide.data());
  return at;
}

/// The number of bits of a block's values if none are wide. Computed one bit of the widths at a time, because the widths are
/// known before the masks.
DLPIPE_COEF_INLINE size_t count_bits(const BlockHead& head) {
  size_t bits = 0;
  for (int plane = 0; plane < 4; ++plane) {
    const uint64_t groups = ((head.widths >> plane) & kOnes) * 0xff;
    bits += static_cast<size_t>(std::popcount(groups & head.present)) << plane;
  }
  return bits;
}

/// Whether a group has eight values of eight bits, which is more than is read at once. A writer uses ten bits.
bool is_overfull(const BlockHead& head) {
  for (size_t group = 0; group < kGroups; ++group) {
    if ((head.widths >> (8 * group) & 0xff) == 8 && (head.present >> (8 * group) & 0xff) == 0xff) return true;
  }
  return false;
}

/// Fills blocks.dc and returns where the first block begins; 0 for data that no writer produces.
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
  /// Returns false for data that no writer produces.
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

/// Reads two tiles in lockstep: the start of a block is known only after the previous block of its tile was examined.
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
  /// Returns false if a group is overfull.
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
  /// Reads a block with wide groups; returns where it ends. Out of line, because it is rare and its caller should stay small.
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

/// Indexed by width, for one group: where its values begin, counted from its first bit, and their bit masks.
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

/// A whole block at a time: each of eight lanes finds its group's bits and splits them into bytes. The bytes
/// of all groups are then compressed, and expanded to their positions.
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
  /// Stores the values of the groups that `present` names and leaves zeros elsewhere. The values must be
  /// within 512 bits.
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
    // The first `count` of each group's eight are values.
    const __m512i counts = _mm512_shuffle_epi8(
        _mm512_cvtepu8_epi64(_mm_popcnt_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(present)))), every);
    const __m512i packed = _mm512_maskz_compress_epi8(_mm512_cmplt_epu8_mask(spread, counts), coded);
    _mm512_store_si512(values, _mm512_maskz_expand_epi8(present, packed));
  }
  /// Returns false if a group is overfull.
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

namespace {

// Coded tiles.

/// The next bits of a tile, at least 56 of them after refill() (after Giesen, "Reading bits in far too many ways", 2018,
/// variant 4). Loads up to 8 bytes after those that are used.
struct BitReader {
  const std::byte* next;
  uint64_t word = 0;
  uint32_t bits = 0;

  DLPIPE_COEF_INLINE void refill() {
    uint64_t more;
    std::memcpy(&more, next, sizeof more);
    word |= more << bits;
    next += (63 - bits) >> 3;
    bits |= 56;
  }
  DLPIPE_COEF_INLINE void skip(uint32_t count) {
    word >>= count;
    bits -= count;
  }
  size_t position(const std::byte* begin) const { return 8 * static_cast<size_t>(next - begin) - bits; }
};

/// Reads values that do not fit a byte, one by one. Rare.
BitReader read_wide(BitReader reader, uint32_t mask, uint32_t width, int group, int block,
                    TileBlocks& blocks) {
  for (int i = 0; i < 8; ++i) {
    if (((mask >> i) & 1) == 0) continue;
    reader.refill();
    const auto coded = static_cast<uint32_t>(reader.word & ((uint64_t{1} << width) - 1));
    reader.skip(width);
    const uint32_t minus = 0 - (coded & 1);  // no branch: signs are unpredictable
    blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {
        static_cast<uint8_t>(block), kZigzag[size_t{8} * static_cast<size_t>(group) + static_cast<size_t>(i)],
        static_cast<int16_t>((((coded >> 1) + 1) ^ minus) - minus)};
  }
  return reader;
}

/// A tile being read. Blocks are read a group at a time without branches that depend on the data, except for rare wide values:
/// an empty group stores zeros, and after the end of a block nothing more is read.
template <class How>
class Lane {
 public:
  DLPIPE_COEF_INLINE Lane(const Tile& tile, TileBlocks& blocks)
      : reader_{tile.bytes},
        begin_(tile.bytes),
        limit_(tile.bytes + tile.size + sizeof(uint64_t)),
        size_(tile.size),
        plane_(static_cast<size_t>(tile.plane_class)),
        blocks_(blocks),
        tables_(decode_tables()) {
    blocks.wide_count = 0;
    blocks.wide_blocks = 0;
  }

  DLPIPE_COEF_INLINE void begin_block(size_t block) {
    reader_.refill();
    const uint32_t entry = tables_.dc[plane_][dc_context_][reader_.word & ((1 << kDcMaxLength) - 1)];
    dc_context_ = entry & 0xff;
    reader_.skip(entry >> 8);
    const auto coded = static_cast<int>(reader_.word & ((1u << dc_context_) - 1));
    reader_.skip(dc_context_);
    dc_ += coded + (coded < ((1 << dc_context_) >> 1) ? 1 - (1 << dc_context_) : 0);
    blocks_.dc[block][0] = static_cast<int16_t>(dc_);
    values_ = blocks_.values[block].data();
    std::memset(values_, 0, 64);
    before_ = DecodeTables::kFirstRow;
    groups_ = 0;
  }

  DLPIPE_COEF_INLINE void read_group(size_t block, size_t group) {
    reader_.refill();
    const uint32_t token_entry = tables_.token[plane_][group < kTokenGroups ? group : kTokenGroups - 1]
                                              [before_][reader_.word & ((1 << kTokenMaxLength) - 1)];
    const uint32_t token = token_entry & 0xff;
    before_ = token;
    reader_.skip(token_entry >> 8);
    if (token == kWide) [[unlikely]] {
      read_wide_group(block, group);
      return;
    }
    const uint32_t entry = take_mask(group, token);
    const uint32_t used = (entry >> 12) * token;
    constexpr uint32_t kLeft = 56 - kTokenMaxLength - kMaskMaxLength;
    if (used > kLeft) [[unlikely]]
      reader_.refill();
    const uint64_t present = How::present(entry & 0xff);
    const uint64_t values = How::spread(reader_.word, present, token) + 2 * present;
    std::memcpy(values_ + 8 * group, &values, sizeof values);
    // Only corrupt data needs more than 56 bits.
    reader_.skip(used < 56 ? used : 56);
    groups_ = values != 0 ? static_cast<uint32_t>(group) + 1 : groups_;
  }

  bool ended() const { return before_ == kEnd; }
  bool past_limit() const { return reader_.next > limit_; }
  DLPIPE_COEF_INLINE void end_block(size_t block) { blocks_.groups[block] = static_cast<uint8_t>(groups_); }

  /// After the last block: whether the bits do not extend beyond the tile's end and, if `whole`, reach it.
  bool is_fine(bool whole) const {
    const size_t used = (reader_.position(begin_) + 7) / 8;
    return whole ? used == size_ : used <= size_;
  }

 private:
  /// Which of a group's coefficients are not zero: an entry of DecodeTables::mask.
  DLPIPE_COEF_INLINE uint32_t take_mask(size_t group, uint32_t token) {
    const DecodeTables::MaskPlace place =
        tables_.mask_place[plane_][group < kMaskGroups ? group : kMaskGroups - 1][token];
    const uint32_t entry = tables_.mask[place.offset + (reader_.word & place.bits)];
    reader_.skip((entry >> 8) & 15);
    return entry;
  }

  void read_wide_group(size_t block, size_t group) {
    const auto width = static_cast<uint32_t>(8 + (reader_.word & 15));
    reader_.skip(4);
    const uint32_t entry = take_mask(group, kWide);
    blocks_.wide_blocks |= 1u << block;
    reader_ =
        read_wide(reader_, entry & 0xff, width, static_cast<int>(group), static_cast<int>(block), blocks_);
    groups_ = static_cast<uint32_t>(group) + 1;
  }

  BitReader reader_;
  const std::byte* begin_;
  const std::byte* limit_;
  size_t size_;
  size_t plane_;
  TileBlocks& blocks_;
  const DecodeTables& tables_;
  int dc_ = 0;
  uint32_t dc_context_ = kDcContexts - 1;
  // State of the block in progress.
  uint8_t* values_ = nullptr;
  uint32_t before_ = 0;
  uint32_t groups_ = 0;
};

/// Blocks [first, count); false when the bits run far past the tile's end.
template <class How>
DLPIPE_COEF_INLINE bool read_blocks(Lane<How>& lane, int first, int count) {
  for (auto block = static_cast<size_t>(first); block < static_cast<size_t>(count); ++block) {
    lane.begin_block(block);
    for (size_t group = 0; group < kGroups && !lane.ended(); ++group) {
      lane.read_group(block, group);
    }
    if (lane.past_limit()) return false;
    lane.end_block(block);
  }
  return true;
}

template <class How>
DLPIPE_COEF_INLINE bool read(const Tile& tile, TileBlocks& blocks) {
  Lane<How> lane(tile, blocks);
  return read_blocks(lane, 0, tile.end) && lane.is_fine(tile.end == tile.blocks);
}

/// Two tiles in lockstep: each waits for its own bits most of the time.
template <class How>
DLPIPE_COEF_INLINE bool read_two(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                 TileBlocks& blocks_b) {
  Lane<How> a(tile_a, blocks_a);
  Lane<How> b(tile_b, blocks_b);
  const int both = tile_a.end < tile_b.end ? tile_a.end : tile_b.end;
  for (size_t block = 0; block < static_cast<size_t>(both); ++block) {
    a.begin_block(block);
    b.begin_block(block);
    for (size_t group = 0; group < kGroups && !(a.ended() && b.ended()); ++group) {
      a.read_group(block, group);
      b.read_group(block, group);
    }
    if (a.past_limit() || b.past_limit()) return false;
    a.end_block(block);
    b.end_block(block);
  }
  return read_blocks(a, both, tile_a.end) && read_blocks(b, both, tile_b.end) &&
         a.is_fine(tile_a.end == tile_a.blocks) && b.is_fine(tile_b.end == tile_b.blocks);
}

DLPIPE_COEF_TARGET bool read_deposit(const Tile& tile, TileBlocks& blocks) {
  return read<Deposit>(tile, blocks);
}
DLPIPE_COEF_TARGET bool read_two_deposit(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b,
                                         TileBlocks& blocks_b) {
  return read_two<Deposit>(tile_a, blocks_a, tile_b, blocks_b);
}

bool has_deposit() {
  static const bool available = Deposit::available();
  return available;
}

}  // namespace

bool read_tile(const Tile& tile, TileBlocks& blocks) {
  if (tile.form == TileForm::kPacked) return packed_reader().one(tile, blocks);
  return has_deposit() ? read_deposit(tile, blocks) : read_tile_portable(tile, blocks);
}

bool read_tiles(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b) {
  if (tile_a.form == TileForm::kPacked) return packed_reader().two(tile_a, blocks_a, tile_b, blocks_b);
  return has_deposit() ? read_two_deposit(tile_a, blocks_a, tile_b, blocks_b)
                       : read_two<Portable>(tile_a, blocks_a, tile_b, blocks_b);
}

bool read_tile_portable(const Tile& tile, TileBlocks& blocks) {
  if (tile.form == TileForm::kPacked) return portable_packed_reader().one(tile, blocks);
  return read<Portable>(tile, blocks);
}

void natural_coefficients(const TileBlocks& blocks, int block, int16_t* out) {
  const auto number = static_cast<size_t>(block);
  std::memset(out, 0, 64 * sizeof(int16_t));
  for (size_t i = 0; i < size_t{8} * blocks.groups[number]; ++i) {
    const int coded = blocks.values[number][i];
    out[kZigzag[i]] = static_cast<int16_t>((coded & 1) != 0 ? -(coded >> 1) : coded >> 1);
  }
  for (int i = 0; i < blocks.wide_count; ++i) {
    const TileBlocks::Wide& wide = blocks.wide[static_cast<size_t>(i)];
    if (wide.block == block) out[wide.position] = wide.value;
  }
  out[0] = blocks.dc[number][0];
}

}  // namespace dlpipe::data::coef
