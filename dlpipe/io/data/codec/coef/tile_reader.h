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
  /// In zigzag order: |value| << 1 | sign for values within +-64, else 0.
  alignas(64) std::array<std::array<uint8_t, 64>, kTileBlocks> values;
  /// In the first of eight lanes; the others are and stay zero.
  alignas(64) std::array<std::array<int16_t, 8>, kTileBlocks> dc{};
  std::array<uint8_t, kTileBlocks> groups;  // of eight, up to the last that isn't empty
  /// Values beyond +-64, by block.
  struct Wide {
    uint8_t block;
    uint8_t position;  // natural order
    int16_t value;
  };
  std::array<Wide, size_t{64} * kTileBlocks> wide;
  int wide_count = 0;
  uint32_t wide_blocks = 0;  // bit i: block i has some
};

/// Bytes behind a tile that may be read (and are ignored).
inline constexpr size_t kTilePadding = 64;

/// Reads the first `count` blocks of a tile whose `size` bytes begin at `bytes`, with kTilePadding readable
/// behind them. False when the bits run past the tile's end or, when these are all of its blocks (`whole`),
/// stop before it.
bool read_tile(const std::byte* bytes, size_t size, int plane_class, int count, bool whole,
               TileBlocks& blocks);

/// The same without the bit-deposit instruction: the twin that the tests compare with.
bool read_tile_portable(const std::byte* bytes, size_t size, int plane_class, int count, bool whole,
                        TileBlocks& blocks);

/// The 64 coefficients of a block that was read, natural order.
void natural_coefficients(const TileBlocks& blocks, int block, int16_t* out);

}  // namespace dlpipe::data::coef
