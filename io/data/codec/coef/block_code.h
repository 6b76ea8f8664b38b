// One block of 8 x 8 quantised DCT coefficients as symbols and bits. Writing side; reading is in
// tile_reader.h, where every cycle counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/base/coef_format.h"
#include "dlpipe/io/data/bytes.h"
#include "dlpipe/io/data/codec/coef/prefix_code.h"

namespace dlpipe::data::coef {

using namespace dlpipe::coef;  // NOLINT: kZigzag, kGroups, ..., which a GPU's reader shares

/// How a record's tiles are written: with prefix codes (prefix_code.h), or in fields of fixed width, which
/// take more bytes and less time (packed_code.h).
enum class TileForm : uint8_t { kCoded, kPacked };

/// Bits, from the least significant end of each byte.
class BitWriter {
 public:
  void put(uint64_t bits, int count) {  // count <= 56
    if (bytes_.size() < size_ + sizeof held_) bytes_.resize(2 * bytes_.size() + 4096);
    held_ |= bits << held_bits_;
    store_le(bytes_.data() + size_, held_);
    held_bits_ += count;
    const int whole = held_bits_ & ~7;
    size_ += static_cast<size_t>(whole / 8);
    held_ >>= whole;  // 63 at most: below 8 held, 56 put
    held_bits_ -= whole;
  }
  void put(Code code) { put(code.bits, code.length); }
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
  explicit ZigzagBlock(const int16_t* natural);
  alignas(64) std::array<int16_t, 64> values;
  /// The sign in the lowest bit, |value| - 1 above it; 0 where the value is.
  alignas(64) std::array<uint16_t, 64> coded;
  uint64_t nonzero = 0;
};

/// A block's symbols, without the choice of codes.
struct BlockSymbols {
  int dc_class = 0;
  uint32_t dc_bits = 0;  // dc_class of them: the difference, or the difference - 1 + 2^dc_class below zero
  int groups = 0;        // up to the last that isn't empty
  std::array<uint8_t, kGroups> token{};
  std::array<uint8_t, kGroups> width{};  // bits a value, 0: empty
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
  /// `coefficients` in natural order.
  void add(const int16_t* coefficients);

 private:
  int plane_;
  BitWriter& out_;
  int dc_ = 0;
  int dc_context_ = kDcContexts - 1;
};

}  // namespace dlpipe::data::coef
