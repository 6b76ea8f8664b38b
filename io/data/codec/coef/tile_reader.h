// Reads a tile's bits into blocks, the serial half of decoding a coefficient record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/data/codec/coef/record.h"

namespace dlpipe::data::coef {

/// Blocks of one tile as input of the kernels. Not cleared between uses.
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

/// Bytes after a tile that may be read (and are ignored), because the end is checked once per block: as many as a block of
/// corrupt bits can need (its DC, then eight groups of a token, a mask and eight values of 23 bits, and a refill; a packed
/// tile's DCs need 34 bytes, a block's values 128 and a vector).
inline constexpr size_t kTilePadding = 256;

/// A tile's bits, and which of its blocks are needed.
struct Tile {
  const std::byte* bytes = nullptr;  // followed by kTilePadding readable bytes
  size_t size = 0;                   // of its bytes, without the padding
  TileForm form = TileForm::kCoded;
  int plane_class = 0;  // chooses the prefix codes
  int blocks = 0;       // of the tile
  int begin = 0;        // those needed: [begin, end); others are unspecified
  int end = 0;
};

/// False if the bits run past the tile's end or, when it is read to its last block, stop before it.
bool read_tile(const Tile& tile, TileBlocks& blocks);
/// The same for two tiles at once, which is faster than one after the other.
bool read_tiles(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b);
/// read_tile for any machine: the reference that the tests compare with.
bool read_tile_portable(const Tile& tile, TileBlocks& blocks);

/// The 64 coefficients of a block that was read, natural order.
void natural_coefficients(const TileBlocks& blocks, int block, int16_t* out);

/// An implementation for packed tiles, with the meaning of read_tile and read_tiles.
struct PackedReader {
  bool (*one)(const Tile& tile, TileBlocks& blocks);
  bool (*two)(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b);
};

/// For any machine: the reference that the tests compare with.
const PackedReader& portable_packed_reader();
/// With BMI2's bit deposit, a group of eight coefficients at a time; nullptr on machines without it.
const PackedReader* bmi2_packed_reader();
/// With AVX-512's byte permutations (VBMI, VBMI2, BITALG), a block at a time; nullptr on machines without
/// them.
const PackedReader* avx512_packed_reader();

/// The best of them on this machine.
const PackedReader& packed_reader();

}  // namespace dlpipe::data::coef
