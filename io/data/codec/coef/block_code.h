// One block of 8 x 8 quantised DCT coefficients as symbols and bits. Writing side; reading is in
// tile_reader.h, where every cycle counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/coef_format.h"
#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/prefix_code.h"

namespace dlpipe::data::coef {

using namespace dlpipe::coef;  // NOLINT: kZigzag, kGroups, ..., which a GPU's reader shares

/// How a record's tiles are written: with prefix codes (prefix_code.h), or in fields of fixed width, which
/// take more bytes and less time (packed_code.h).
enum class TileForm : uint8_t { kCoded, kPacked };

/// Where bits go. Held apart from the memory that they go to: a store of bytes may change anything that memory holds,
/// to the compiler, and a loop would load its own state anew for every value.
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
  /// For many puts in a row, of no more than `most_bytes`; end() takes them.
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
  /// Fills the last byte with zeros and appends what came since the last call; answers how many bytes.
  size_t take(std::vector<std::byte>& out);

 private:
  std::vector<std::byte> bytes_;  // kept from one take to the next; the first size_ are written
  size_t size_ = 0;
  uint64_t held_ = 0;
  int held_bits_ = 0;  // below 8 between calls
};

/// A block in zigzag order, and which of its coefficients are not zero (bit i: position i): most are.
struct ZigzagBlock {
  ZigzagBlock() = default;  // its values are left open
  explicit ZigzagBlock(const int16_t* natural) { fill(natural); }
  void fill(const int16_t* natural);
  alignas(64) std::array<int16_t, 64> values;
  /// The sign in the lowest bit, |value| - 1 above it; 0 where the value is.
  alignas(64) std::array<uint16_t, 64> coded;
  uint64_t nonzero = 0;
};
/// Fills a block but for the code of its DC.
using ZigzagFill = void (*)(const int16_t* natural, ZigzagBlock& block);
/// The ways to do so that this machine has: the portable one first, last the fastest, which fill() takes.
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

/// `dc_before` is the DC of the block before it in the tile, 0 at its begin.
BlockSymbols symbols_of(const ZigzagBlock& block, int dc_before);

/// The coded values of a group, `width` bits each.
void put_values(const ZigzagBlock& block, int group, uint32_t mask, int width, BitWriter& out);

/// Writes the blocks of one coded tile after one another; the code's contexts begin anew with each object.
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

}  // namespace dlpipe::data::coef
