// The bytes of a coefficient record (FORMAT.md, "Coefficients"): a JPEG's quantised DCT coefficients, losslessly, in tiles that
// can be read independently.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "arithmetic/coefficients.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data::coef {

using namespace dlpipe::coef;  // NOLINT: ColorModel, kMaxTileBlocks, ..., which a GPU's reader shares

/// How a record's tiles are written: with prefix codes, or in fields of fixed width, which are larger but faster (tile_code.h).
enum class TileForm : uint8_t { kCoded, kPacked };

/// An image's planes share prefix codes in two classes: the first (luma or grey), and all others.
constexpr int plane_class_of(int component) {
  return component == 0 ? 0 : 1;
}

inline constexpr std::string_view kMagic = "dlc1";

constexpr int divide_up(int64_t value, int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

struct Component {
  int h = 1;  // sampling factors
  int v = 1;
  int width = 0;  // in samples, without the padding of the last block
  int height = 0;
  int blocks_wide = 0;
  int blocks_high = 0;
  std::array<uint16_t, 64> quant{};  // natural order
};

/// An image's geometry and tables.
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

  /// Fills the sizes of components from width, height and the sampling factors; kUnsupported if a factor is outside 1..4 or
  /// does not divide the largest.
  Status set_geometry();
  /// Block rows of component `c` in MCU row `row`; the last may have fewer.
  int block_rows(int c, int row) const;
  /// Tiles of a row of blocks of component `c`.
  int tiles(int c) const { return divide_up(component[c].blocks_wide, tile_blocks); }
};

/// A parsed record; spans point into it.
struct Record {
  Frame frame;
  /// Writing the tiles as one baseline scan with the head's own tables reproduces the source's bytes.
  bool source_bytes = false;
  std::span<const std::byte> row_ends;  // one u32 per MCU row: where it ends in `data`
  std::span<const std::byte> data;
  /// Parts of the source, packed (pack_head): `head_bytes` before the entropy-coded data, then `tail_bytes` after it.
  std::span<const std::byte> around;
  uint32_t head_bytes = 0;
  uint32_t tail_bytes = 0;

  /// The bytes of MCU row `row`: the tiles' lengths, then the tiles. kCorrupt if the table is inconsistent.
  Result<std::span<const std::byte>> row(int row) const;
};

/// Checks every size against the available bytes. kCorrupt / kUnsupported say why. `bytes` may hold anything.
Result<Record> parse_record(std::span<const std::byte> bytes);

/// Parses only the image's description.
Result<Frame> parse_frame(std::span<const std::byte> bytes);

/// Lengths of tiles: seven bits per byte, least significant first, the top bit set if more follow.
void put_length(uint64_t length, std::vector<std::byte>& out);
/// Moves `at` past it; false if it is truncated or longer than four bytes.
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

/// Iterates over the tiles of one MCU row by component, block row, tile.
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
  /// False after the last one, and if the row's bytes end too early. (Inline, because selecting tiles for a GPU does little
  /// else.)
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
  /// After the last: whether all tiles were present and used all of the row's bytes.
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
  Tile place_;  // of the next tile
  int end_row_ = 0;
  int blocks_wide_ = 0;  // of its component
};

/// Assembles a record; `rows` are the MCU rows' bytes.
std::vector<std::byte> build_record(const Frame& frame, bool source_bytes,
                                    const std::vector<std::vector<std::byte>>& rows,
                                    std::span<const std::byte> head, std::span<const std::byte> tail);

// The head of a record: the bytes of a JPEG around its entropy-coded data, compressed by zstd. Its dictionary is the tables of
// ITU-T T.81 annex K, which most files contain. Only export reads it.

/// Largest source whose packed head can be read back. It equals ingest's limit for one image, because anything may follow a
/// JPEG's end (a phone's video, raw sensor data).
inline constexpr size_t kMostHeadBytes = size_t{1} << 30;

/// At most kMostHeadBytes.
std::vector<std::byte> pack_head(std::span<const std::byte> bytes);
/// kCorrupt unless it unpacks to exactly `size` bytes.
Result<std::vector<std::byte>> unpack_head(std::span<const std::byte> packed, size_t size);

/// Which blocks of a component a region of an image needs: its own samples, and one on each side if upsampling reads
/// neighbours.
struct RegionBlocks {
  int fx = 1;  // pixels per sample
  int fy = 1;
  Upsampling upsampling = Upsampling::kNone;
  int first_block = 0;  // columns of blocks: [first_block, end_block)
  int end_block = 0;
  int first_row = 0;  // rows of blocks: [first_row, end_row)
  int end_row = 0;
};
/// `region` is inside the image and not empty.
RegionBlocks region_blocks(const Frame& frame, int component, const Region& region);

/// A range of MCU rows: [first, end).
struct RowRange {
  int first = 0;
  int end = 0;
};
/// The MCU rows with blocks that the region needs, of any component.
RowRange region_rows(const Frame& frame, const Region& region);

}  // namespace dlpipe::data::coef
