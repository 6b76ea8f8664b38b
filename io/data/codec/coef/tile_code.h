// A tile's blocks of 8 x 8 quantised DCT coefficients as bits, in the two forms of a tile (FORMAT.md): coded, with prefix
// codes, and packed, in fields of fixed width. This is the writing side; tile_reader.h reads, where every cycle counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arithmetic/coefficients.h"
#include "base/bytes.h"
#include "io/data/codec/coef/bits.h"

namespace dlpipe::data::coef {

using namespace dlpipe::coef;  // NOLINT: kZigzag, kGroups, ..., which a GPU's reader shares

// The prefix codes: what a coded tile's bits mean. They are fixed for a version of the format; their lengths are in
// code_lengths.inc and come from benchmarks/coefficient_codes on real images. Bits are read from the least significant end.
// Every code is complete: any bits decode to something.

inline constexpr int kPlaneClasses = 2;  // plane_class_of (record.h)

/// Size in bits of a DC difference's magnitude, given the size before it in the tile.
inline constexpr int kDcClasses = 17;               // 0..16
inline constexpr int kDcContexts = kDcClasses + 1;  // the last: at a tile's start
inline constexpr int kDcMaxLength = 8;

/// The kind of a group of eight coefficients; its code depends on plane, group and the kind of the group before it.
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

/// Codes for writing, by [context][symbol]; those of DC classes by [plane class] first.
struct EncodeTables {
  std::array<std::array<std::array<Code, kDcClasses>, kDcContexts>, kPlaneClasses> dc;
  std::array<std::array<Code, kTokens>, kTokenContexts> token;
  std::array<std::array<Code, 256>, kMaskContexts> mask;
};

/// Tables for reading, indexed by the next bits. An entry: symbol | length << 8; for masks also the number of set bits << 12.
/// Designed for reading without branches: after a block's end there are only ends, of zero bits, and an empty group has the
/// mask 0, of zero bits.
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

/// The state of writing bits. It is separate from the memory that is written: to the compiler, a store of bytes may change
/// anything in memory, so a loop would reload its state for every value.
struct BitCursor {
  std::byte* to;
  uint64_t held = 0;
  int held_bits = 0;  // below 8 between calls

  DLPIPE_COEF_INLINE void put(uint64_t bits, int count) {  // count <= 56
    held |= bits << held_bits;
    store_le(to, held);
    held_bits += count;
    const int whole = held_bits & ~7;
    to += whole / 8;
    held >>= whole;  // 63 at most: below 8 held, 56 put
    held_bits -= whole;
  }
};

/// Bits, from the least significant end of each byte.
class BitWriter {
 public:
  void put(uint64_t bits, int count) {  // count <= 56
    BitCursor cursor = begin(sizeof bits);
    cursor.put(bits, count);
    end(cursor);
  }
  void put(Code code) { put(code.bits, code.length); }
  /// Begins many puts in a row, of at most `most_bytes`; end() ends them.
  BitCursor begin(size_t most_bytes) {
    const size_t needed = size_ + most_bytes + sizeof held_;
    if (bytes_.size() < needed) bytes_.resize(std::max(needed, 2 * bytes_.size() + 4096));
    return {bytes_.data() + size_, held_, held_bits_};
  }
  void end(const BitCursor& cursor) {
    size_ = static_cast<size_t>(cursor.to - bytes_.data());
    held_ = cursor.held;
    held_bits_ = cursor.held_bits;
  }
  /// Pads the last byte with zeros and appends everything since the last call; returns the number of bytes.
  size_t take(std::vector<std::byte>& out);

 private:
  std::vector<std::byte> bytes_;  // kept from one take to the next; the first size_ are written
  size_t size_ = 0;
  uint64_t held_ = 0;
  int held_bits_ = 0;  // below 8 between calls
};

/// A block in zigzag order, and which of its coefficients are not zero (bit i: position i): most are.
struct ZigzagBlock {
  ZigzagBlock() = default;  // its values are unspecified
  explicit ZigzagBlock(const int16_t* natural) { fill(natural); }
  void fill(const int16_t* natural);
  alignas(64) std::array<int16_t, 64> values;
  /// The sign in the lowest bit, |value| - 1 above it; 0 if the value is 0.
  alignas(64) std::array<uint16_t, 64> coded;
  uint64_t nonzero = 0;
};
/// Fills a block except the code of its DC.
using ZigzagFill = void (*)(const int16_t* natural, ZigzagBlock& block);
/// The implementations that this machine supports: the portable one first, the fastest last, which fill() uses.
std::vector<ZigzagFill> zigzag_fills();

/// A block's symbols, without the choice of codes.
struct BlockSymbols {
  int dc_class = 0;
  uint32_t dc_bits = 0;  // dc_class of them: the difference, or the difference - 1 + 2^dc_class below zero
  int groups = 0;        // up to the last that isn't empty
  std::array<uint8_t, kGroups> token{};
  std::array<uint8_t, kGroups> width{};  // bits per value, 0: empty
  std::array<uint8_t, kGroups> mask{};
};

/// `dc_before` is the DC of the block before it in the tile, 0 at the tile's start.
BlockSymbols symbols_of(const ZigzagBlock& block, int dc_before);

/// The coded values of a group, `width` bits each.
void put_values(const ZigzagBlock& block, int group, uint32_t mask, int width, BitWriter& out);

/// Writes the blocks of one coded tile after one another; the code's contexts start over with each object.
class TileWriter {
 public:
  TileWriter(int plane_class, BitWriter& out) : plane_(plane_class), out_(out) {}
  void add(const ZigzagBlock& block);

 private:
  int plane_;
  BitWriter& out_;
  int dc_ = 0;
  int dc_context_ = kDcContexts - 1;
};

/// Appends the bits of a packed tile: fields of fixed width instead of prefix codes, so that a field's position follows from
/// the counts before it and a whole block can be parsed at once. The fields' widths are in arithmetic/coefficients.h, which a
/// GPU's reader also uses.
void put_packed_tile(std::span<const ZigzagBlock> blocks, BitWriter& out);

/// The version without BMI2, which the tests compare with.
void put_packed_tile_portable(std::span<const ZigzagBlock> blocks, BitWriter& out);

}  // namespace dlpipe::data::coef
