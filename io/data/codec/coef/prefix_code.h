// The prefix codes of coefficient records (FORMAT.md): what a tile's bits mean. Fixed for a version of the
// format; their lengths stand in code_lengths.inc, which benchmarks/coefficient_codes counted on real
// pictures.
//
// Bits are read from the least significant end. Every code is complete: any bits decode to something.
#pragma once

#include <array>
#include <cstdint>

namespace dlpipe::data::coef {

/// A picture's planes share codes in two classes: the first (luma or grey), and all others.
inline constexpr int kPlaneClasses = 2;
constexpr int plane_class_of(int component) {
  return component == 0 ? 0 : 1;
}

/// Size in bits of a DC difference's magnitude, after the size before it in the tile.
inline constexpr int kDcClasses = 17;               // 0..16
inline constexpr int kDcContexts = kDcClasses + 1;  // the last: at a tile's begin
inline constexpr int kDcMaxLength = 8;

/// What a group of eight coefficients is, by plane, group and what the group before it was.
enum Token : uint8_t {
  kEmpty = 0,  // 1..8: that many bits per value, its sign included; 8 for at most 7 values within +-127
  kWide = 9,   // the number of bits follows: 4 bits, plus 8
  kEnd = 10,   // this group and all later ones are empty
  kTokens = 11,
};
inline constexpr int kTokensBefore = 11;  // the token before; 10: none
inline constexpr int kTokenGroups = 3;    // the last: third group and later
inline constexpr int kTokenContexts = kPlaneClasses * kTokenGroups * kTokensBefore;
inline constexpr int kTokenMaxLength = 7;

/// Which of a group's eight coefficients are not zero, by plane, group and bits per value.
inline constexpr int kMaskGroups = 4;  // the last: fourth group and later
inline constexpr int kMaskWidths = 3;  // the last: three bits and more
inline constexpr int kMaskContexts = kPlaneClasses * kMaskGroups * kMaskWidths;
inline constexpr int kMaskMaxLength = 10;

constexpr int token_context(int plane_class, int group, int before) {
  return (plane_class * kTokenGroups + (group < kTokenGroups ? group : kTokenGroups - 1)) * kTokensBefore +
         before;
}
constexpr int mask_context(int plane_class, int group, int bits) {
  return (plane_class * kMaskGroups + (group < kMaskGroups ? group : kMaskGroups - 1)) * kMaskWidths +
         (bits < kMaskWidths ? bits : kMaskWidths) - 1;
}

struct Code {
  uint16_t bits = 0;
  uint8_t length = 0;  // 0: the symbol can't occur
};

/// Codes to write with, by [context][symbol]; of DC classes by [class of plane] before.
struct EncodeTables {
  std::array<std::array<std::array<Code, kDcClasses>, kDcContexts>, kPlaneClasses> dc;
  std::array<std::array<Code, kTokens>, kTokenContexts> token;
  std::array<std::array<Code, 256>, kMaskContexts> mask;
};

/// Tables to read with, indexed by the next bits. An entry: symbol, length << 8; of masks also the number of
/// set bits << 12. Made for reading without branches: behind a block's end there are only ends, of no bits,
/// and a group that is empty has the mask 0, of no bits.
struct DecodeTables {
  using TokenTable = std::array<uint16_t, 1 << kTokenMaxLength>;
  /// Rows by the token before: 0..9, kEnd (only ends), then a block's first.
  static constexpr int kFirstRow = kTokens;
  static constexpr int kTokenRows = kTokens + 1;
  /// Where a group's mask code begins in `mask`, and which of the next bits choose in it.
  struct MaskPlace {
    uint32_t offset = 0;
    uint32_t bits = 0;
  };
  std::array<std::array<std::array<uint16_t, 1 << kDcMaxLength>, kDcContexts>, kPlaneClasses> dc;
  std::array<std::array<std::array<TokenTable, kTokenRows>, kTokenGroups>, kPlaneClasses> token;
  std::array<std::array<std::array<MaskPlace, kTokens>, kMaskGroups>, kPlaneClasses> mask_place;
  std::array<uint16_t, (kMaskContexts << kMaskMaxLength) + 1> mask;  // the last: an empty group's
};

/// Built at first use; immutable, shared by all threads.
const EncodeTables& encode_tables();
const DecodeTables& decode_tables();

}  // namespace dlpipe::data::coef
