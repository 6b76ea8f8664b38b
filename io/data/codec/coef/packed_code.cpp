#include "dlpipe/io/data/codec/coef/packed_code.h"

#include <algorithm>
#include <array>
#include <bit>

#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/group_values.h"

namespace dlpipe::data::coef {
namespace {

uint32_t folded(int value) {  // the sign in the lowest bit
  return static_cast<uint32_t>(value < 0 ? -2 * value - 1 : 2 * value);
}

void put_dc(std::span<const ZigzagBlock> blocks, BitCursor& out) {
  const auto dc = [&](size_t i) { return int{blocks[i].values[0]}; };
  uint32_t any = 0;  // as long as the longest difference
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

/// What stands for the width of a group that isn't empty (packed_width of it is the width).
DLPIPE_COEF_INLINE int field_of(const uint16_t* values, uint32_t mask) {
  const GroupWidth width = group_width(values, mask);
  return width.fits_bytes ? width.bits : std::max(width.bits, kWidestByte + 2) - 1;
}

DLPIPE_COEF_INLINE void put_one_by_one(const uint16_t* values, uint32_t mask, int width, BitCursor& out) {
  for (; mask != 0; mask &= mask - 1) out.put(values[std::countr_zero(mask)], width);
}

struct Groups {
  int count = 0;  // up to the last that isn't empty
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

// Compiled twice: BMI2 takes a whole group of values out at once.
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

void put_tile_portable(std::span<const ZigzagBlock> blocks, BitWriter& out) {
  BitCursor cursor = out.begin(kMaxPackedTileBytes);
  put_dc(blocks, cursor);
  for (const ZigzagBlock& block : blocks) put_block<false>(block, cursor);
  out.end(cursor);
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
  put_tile_portable(blocks, out);
}

void put_packed_tile(std::span<const ZigzagBlock> blocks, BitWriter& out) {
#if defined(__x86_64__)
  static const auto best = Deposit::available() ? put_tile_bmi2 : put_tile_portable;
#else
  constexpr auto best = put_tile_portable;
#endif
  best(blocks, out);
}

}  // namespace dlpipe::data::coef
