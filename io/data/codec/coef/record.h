// The bytes of a coefficient record (FORMAT.md, "Coefficients"): a JPEG's quantised DCT coefficients,
// losslessly, in tiles that can be read apart from each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/coef/block_code.h"

namespace dlpipe::data::coef {

inline constexpr std::string_view kMagic = "dlc1";

constexpr int divide_up(int64_t value, int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

struct Component {
  int h = 1;  // sampling factors
  int v = 1;
  int width = 0;  // in samples, without what fills the last block
  int height = 0;
  int blocks_wide = 0;
  int blocks_high = 0;
  std::array<uint16_t, 64> quant{};  // natural order
};

/// A picture's geometry and tables.
struct Frame {
  int width = 0;
  int height = 0;
  ColorModel color = ColorModel::kGrey;
  Orientation orientation = 1;
  int components = 0;
  std::array<Component, kMaxComponents> component;
  int max_h = 1;
  int max_v = 1;
  int mcu_rows = 0;
  int tile_blocks = kMaxTileBlocks;  // 4, 8 or 16
  TileForm tile_form = TileForm::kCoded;

  /// Fills the sizes of components from width, height and the sampling factors; kUnsupported when a factor is
  /// out of 1..4 or doesn't divide the largest.
  Status set_geometry();
  /// Block rows of component `c` in MCU row `row`; the last has fewer where the picture ends.
  int block_rows(int c, int row) const;
  /// Tiles of a row of blocks of component `c`.
  int tiles(int c) const { return divide_up(component[c].blocks_wide, tile_blocks); }
};

/// A record taken apart; spans lie in it.
struct Record {
  Frame frame;
  /// The tiles written as one baseline scan with the head's own tables are the source's own bytes.
  bool source_bytes = false;
  std::span<const std::byte> row_ends;  // u32 a MCU row: where it ends in `data`
  std::span<const std::byte> data;
  /// Of the source, packed (head.h): `head_bytes` before the entropy-coded data, then `tail_bytes` behind it.
  std::span<const std::byte> around;
  uint32_t head_bytes = 0;
  uint32_t tail_bytes = 0;

  /// The bytes of MCU row `row`: the tiles' lengths, then the tiles. kCorrupt when the table contradicts
  /// itself.
  Result<std::span<const std::byte>> row(int row) const;
};

/// Checks every size against what is there. kCorrupt / kUnsupported say why. `bytes` may hold anything.
Result<Record> parse_record(std::span<const std::byte> bytes);

/// Just the picture's description.
Result<Frame> parse_frame(std::span<const std::byte> bytes);

/// Lengths of tiles: seven bits per byte, least significant first, the top bit set where more follow.
void put_length(uint64_t length, std::vector<std::byte>& out);
/// Moves `at` behind it; false when it is cut short or takes more than four bytes.
inline bool read_length(std::span<const std::byte> bytes, size_t* at, uint32_t* length) {
  *length = 0;
  for (int shift = 0; shift < 28; shift += 7) {
    if (*at >= bytes.size()) return false;
    const auto byte = static_cast<uint32_t>(bytes[(*at)++]);
    *length |= (byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/// The tiles of one MCU row in their order: by component, block row, tile.
class RowTiles {
 public:
  struct Tile {
    int component = 0;
    int block_row = 0;    // of the component
    int first_block = 0;  // of that row
    int blocks = 0;
    std::span<const std::byte> bytes;
  };
  RowTiles(const Frame& frame, int row, std::span<const std::byte> bytes);
  /// False behind the last one, and when the row's bytes end too early. (Here, because selecting tiles for a
  /// GPU is little more than this.)
  bool next(Tile* tile) {
    if (damaged_ || left_ == 0) return false;
    while (place_.block_row >= end_row_) enter(place_.component + 1);  // none of this component
    uint32_t length = 0;
    if (!read_length(bytes_, &length_at_, &length) || length > bytes_.size() - at_) {
      damaged_ = true;
      return false;
    }
    *tile = place_;
    tile->blocks = std::min(frame_.tile_blocks, blocks_wide_ - place_.first_block);
    tile->bytes = bytes_.subspan(at_, length);
    at_ += length;
    --left_;
    place_.first_block += frame_.tile_blocks;
    if (place_.first_block >= blocks_wide_) {
      place_.first_block = 0;
      ++place_.block_row;
    }
    return true;
  }
  /// After the last: whether the tiles were all there and took all of the row's bytes.
  bool complete() const { return !damaged_ && left_ == 0 && at_ == bytes_.size(); }

 private:
  void enter(int component);

  const Frame& frame_;
  int row_;
  std::span<const std::byte> bytes_;
  size_t length_at_ = 0;
  size_t at_ = 0;
  int64_t left_ = 0;
  bool damaged_ = false;
  Tile place_;  // of the next one
  int end_row_ = 0;
  int blocks_wide_ = 0;  // of its component
};

/// Puts a record together; `rows` are the MCU rows' bytes.
std::vector<std::byte> build_record(const Frame& frame, bool source_bytes,
                                    const std::vector<std::vector<std::byte>>& rows,
                                    std::span<const std::byte> head, std::span<const std::byte> tail);

}  // namespace dlpipe::data::coef
