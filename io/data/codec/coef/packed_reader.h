// Reads tiles in the packed form (packed_code.h).
#pragma once

#include "dlpipe/io/data/codec/coef/tile_reader.h"

namespace dlpipe::data::coef {

/// A way to read tiles, with the meaning of read_tile and read_tiles.
struct PackedReader {
  bool (*one)(const Tile& tile, TileBlocks& blocks);
  bool (*two)(const Tile& tile_a, TileBlocks& blocks_a, const Tile& tile_b, TileBlocks& blocks_b);
};

/// For any machine: the twin that the tests compare with.
const PackedReader& portable_packed_reader();
/// With BMI2's bit deposit, a group of eight coefficients at a time; nullptr on machines without it.
const PackedReader* bmi2_packed_reader();
/// With AVX-512's byte permutations (VBMI, VBMI2, BITALG), a block at a time; nullptr on machines without
/// them.
const PackedReader* avx512_packed_reader();

/// The best of them here.
const PackedReader& packed_reader();

}  // namespace dlpipe::data::coef
