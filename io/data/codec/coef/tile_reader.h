// Reads a tile's bits into blocks, the serial half of decoding a coefficient record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/io/data/codec/coef/block_code.h"

namespace dlpipe::data::coef {

/// Blocks of one tile as the kernels take them. Not cleared between uses.
struct TileBlocks {
  /// In zigzag order: |value| << 1 | sign for values within +-127, else 0.
  alignas(64) std::array<std::array<uint8_t, 64>, kMaxTileBlocks> values;
  /// In the first of eight lanes; the others are and stay zero.
  alignas(64) std::array<std::array<int16_t, 8>, kMaxTileBlocks> dc{};
  std::array<uint8_t, kMaxTileBlocks> groups;  // of eight, up to the last that isn't empty
  /// Values of wide groups, by block.
  struct Wide {
    uint8_t block;
    uint8_t position;  // natural order
    int16_t value;
  };
  std::array<Wide, size_t{64} * kMaxTileBlocks> wide;
  int wide_count = 0;
  uint32_t wide_blocks = 0;  // bit i: block i has some
};

/// Bytes behind a tile that may be read (and are ignored): as many as a block of damaged bits can ask for
/// (its DC, then eight groups of a token, a mask and eight values of 23 bits, and a refill; a packed tile's
/// DCs take 34 bytes, a block's values 128 and a vector), since the end is looked for a block at a time.
inline constexpr size_t kTilePadding = 256;

/// A tile's bits, and how much of it is wanted.
struct Tile {
  const std::byte* bytes = nullptr;  // kTilePadding readable behind them
  size_t size = 0;                   // of its bytes, without the padding
  TileForm form = TileForm::kCoded;
  int plane_class = 0;  // chooses the prefix codes
  int blocks = 0;       // all that it has
  int begin = 0;        // those wanted: [begin, end); of others nothing is promised
  int end = 0;
};

/// False when the bits run past the tile's end or, if it is read to its last block, stop before it.
bool read_tile(const Tile& tile, TileBlocks& blocks);
/// The same for two tiles at once, which takes less time than one after the other.
bool read_tiles(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b);
/// read_tile for any machine: the twin that the tests compare with.
bool read_tile_portable(const Tile& tile, TileBlocks& blocks);

/// The 64 coefficients of a block that was read, natural order.
void natural_coefficients(const TileBlocks& blocks, int block, int16_t* out);

}  // namespace dlpipe::data::coef
