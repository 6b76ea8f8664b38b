// The packed form of a tile (FORMAT.md): fields of fixed width instead of prefix codes, so that where a field
// begins follows from the counts before it and a whole block can be taken apart at once. Writing side;
// reading is in packed_reader.h. The fields' widths stand in base/coef_format.h, for a GPU's reader too.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/io/data/codec/coef/block_code.h"

namespace dlpipe::data::coef {

/// Appends a tile's bits.
void put_packed_tile(std::span<const ZigzagBlock> blocks, BitWriter& out);

/// The twin without BMI2, which the tests compare with.
void put_packed_tile_portable(std::span<const ZigzagBlock> blocks, BitWriter& out);

}  // namespace dlpipe::data::coef
