#include "dlpipe/io/data/codec/coef/packed_code.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace dlpipe::data::coef {
namespace {

uint32_t folded(int value) {  // the sign in the lowest bit
  return static_cast<uint32_t>(value < 0 ? -2 * value - 1 : 2 * value);
}

void put_dc(std::span<const int16_t* const> blocks, BitWriter& out) {
  int width = 0;
  bool fits = true;
  for (size_t i = 0; i < blocks.size(); ++i) {
    constexpr int kLimit = 1 << (kFirstDcBits - 1);
    fits = fits && blocks[i][0] >= -kLimit && blocks[i][0] < kLimit;
    if (i > 0)
      width = std::max(width, static_cast<int>(std::bit_width(folded(blocks[i][0] - blocks[i - 1][0]))));
  }
  out.put(static_cast<uint64_t>(fits ? width : kRawDc), kDcWidthBits);
  const auto first = static_cast<uint16_t>(blocks[0][0]);
  out.put(fits ? first & ((1u << kFirstDcBits) - 1) : 0, kFirstDcBits);
  if (fits) {
    for (size_t i = 1; i < blocks.size(); ++i) out.put(folded(blocks[i][0] - blocks[i - 1][0]), width);
  } else {
    for (const int16_t* block : blocks) out.put(static_cast<uint16_t>(block[0]), kRawDcBits);
  }
}

/// What stands for a group's width.
int field_of(const BlockSymbols& block, int group) {
  const int width = block.width[group];
  return block.token[group] == kWide ? std::max(width, 10) - 1 : width;
}

void put_packed_block(const int16_t* coefficients, BitWriter& out) {
  const ZigzagBlock zigzag(coefficients);
  const BlockSymbols block = symbols_of(zigzag, 0);
  bool narrow = true;
  for (int group = 0; group < block.groups; ++group)
    narrow = narrow && field_of(block, group) < 1 << narrow_width_bits(group);
  const int groups = narrow ? block.groups : std::max(block.groups, kFewestWideGroups);
  out.put(static_cast<uint64_t>(narrow ? groups : kFirstWideKind + groups - kFewestWideGroups), kKindBits);
  for (int group = 0; group < groups; ++group)
    out.put(static_cast<uint64_t>(field_of(block, group)),
            narrow ? narrow_width_bits(group) : kWideWidthBits);
  for (int group = 0; group < block.groups; ++group) {
    if (block.mask[group] == 0) continue;
    const int dc = group == 0 ? 1 : 0;  // has no bit in its group's mask
    out.put(block.mask[group] >> dc, 8 - dc);
  }
  for (int group = 0; group < block.groups; ++group)
    put_values(zigzag, group, block.mask[group], packed_width(field_of(block, group)), out);
}

}  // namespace

void put_packed_tile(std::span<const int16_t* const> blocks, BitWriter& out) {
  put_dc(blocks, out);
  for (const int16_t* block : blocks) put_packed_block(block, out);
}

}  // namespace dlpipe::data::coef
