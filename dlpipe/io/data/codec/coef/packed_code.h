// The packed form of a tile (FORMAT.md): fields of fixed width instead of prefix codes, so that where a field
// begins follows from the counts before it and a whole block can be taken apart at once. Writing side;
// reading is in packed_reader.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dlpipe/io/data/codec/coef/block_code.h"

namespace dlpipe::data::coef {

/// A tile begins with the width of its DC differences and its first DC.
inline constexpr int kDcWidthBits = 4;
inline constexpr int kFirstDcBits = 12;  // two's complement
inline constexpr int kMaxDcWidth = 13;   // of differences between such, signs in the lowest bit
inline constexpr int kRawDc = 15;        // instead of a width: 16 bits a DC

/// A block begins with its kind: how many groups it has, and how many bits name a group's width.
inline constexpr int kKindBits = 4;
inline constexpr int kWideWidthBits = 4;  // where the narrow ones don't suffice
inline constexpr std::array<uint8_t, kGroups> kNarrowWidthBits = {3, 3, 3, 2, 2, 2, 2, 2};
/// Kinds: 0 to 8 groups of narrow widths, then 2 to 8 of wide ones.
inline constexpr int kFirstWideKind = kGroups + 1;
inline constexpr int kFewestWideGroups = 2;

/// Bits a value of a group whose width's field holds `field`: 0 to 8 for itself, then 10 to 16.
constexpr int packed_width(int field) {
  return field + (field > 8 ? 1 : 0);
}

/// Appends a tile's bits. `blocks`: the coefficients of each, natural order.
void put_packed_tile(std::span<const int16_t* const> blocks, BitWriter& out);

}  // namespace dlpipe::data::coef
