#include "dlpipe/io/data/codec/coef/tile_reader.h"

#include <cstring>

#include "dlpipe/io/data/codec/coef/bit_deposit.h"
#include "dlpipe/io/data/codec/coef/packed_reader.h"

namespace dlpipe::data::coef {
namespace {

/// The next bits of a tile, at least 56 of them after refill() (after Giesen, "Reading bits in far too many
/// ways", 2018, variant 4). Loads up to 8 bytes behind what is used.
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

/// Values of more bits than a byte has room for: rare, one by one.
BitReader read_wide(BitReader reader, uint32_t mask, uint32_t width, int group, int block,
                    TileBlocks& blocks) {
  for (int i = 0; i < 8; ++i) {
    if (((mask >> i) & 1) == 0) continue;
    reader.refill();
    const auto coded = static_cast<uint32_t>(reader.word & ((uint64_t{1} << width) - 1));
    reader.skip(width);
    const uint32_t minus = 0 - (coded & 1);  // no branch: signs can't be foretold
    blocks.wide[static_cast<size_t>(blocks.wide_count++)] = {
        static_cast<uint8_t>(block), kZigzag[size_t{8} * static_cast<size_t>(group) + static_cast<size_t>(i)],
        static_cast<int16_t>((((coded >> 1) + 1) ^ minus) - minus)};
  }
  return reader;
}

/// A tile being read. Blocks are read a group at a time without branches that depend on the data, but for
/// rare wide values: an empty group stores zeros, and behind the end of a block nothing is read any more.
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
    // More than 56 bits are only asked for by damaged data.
    reader_.skip(used < 56 ? used : 56);
    groups_ = values != 0 ? static_cast<uint32_t>(group) + 1 : groups_;
  }

  bool ended() const { return before_ == kEnd; }
  bool past_limit() const { return reader_.next > limit_; }
  DLPIPE_COEF_INLINE void end_block(size_t block) { blocks_.groups[block] = static_cast<uint8_t>(groups_); }

  /// After the last block: the bits haven't run past the tile's end and, where it was read whole, reach it.
  bool is_fine(bool whole) const {
    const size_t used = (reader_.position(begin_) + 7) / 8;
    return whole ? used == size_ : used <= size_;
  }

 private:
  /// Which of a group's coefficients there are: an entry of DecodeTables::mask.
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
  // Of the block in progress.
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
