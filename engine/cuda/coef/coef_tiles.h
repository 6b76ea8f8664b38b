// From a packed tile's bits to samples: a block of threads per tile. One thread finds where each of the tile's
// blocks of coefficients begins, which is the serial part; then eight threads take each: a group of
// coefficients, a column of the transform, a row.
#pragma once

#include "dlpipe/engine/cuda/coef/coef_samples.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// Natural positions of eight zigzag positions each, a byte a position: an array in the code could not be
/// indexed on a device.
struct GroupPositions {
  uint64_t at[coef::kGroups];
};
constexpr GroupPositions group_positions() {
  GroupPositions positions{};
  for (size_t i = 0; i < coef::kZigzag.size(); ++i)
    positions.at[i / 8] |= uint64_t{coef::kZigzag[i]} << (8 * (i % 8));
  return positions;
}

/// A tile, and which of its blocks are wanted: [begin, end).
struct CoefTile {
  const coef::CoefPlane* plane;
  int row;    // of blocks
  int first;  // block of that row
  int blocks;
  int begin;
  int end;
  const uint32_t* words;  // holding the tile's bytes
  uint32_t word_count;
  uint32_t first_bit;  // of the tile, in the first word
  uint32_t size;       // bytes

  DLPIPE_DEVICE bool wants(int block) const { return begin <= block && block < end; }
};

/// Tiles of a sample are numbered by component, row, tile. Ranges that leave the sample's part, or that no
/// tile fills, become empty.
DLPIPE_DEVICE CoefTile tile_of(const CoefBatch& batch, const CoefPlace& place) {
  const coef::CoefSample& sample = *place.sample;
  const auto number = static_cast<uint32_t>(place.block);
  int component = 0;
  while (component + 1 < sample.components && sample.plane[component + 1].tile_table <= number) ++component;
  const coef::CoefPlane& plane = sample.plane[component];
  const auto in_plane = static_cast<int>(number - plane.tile_table);
  const std::byte* const part = batch.tiles + sample.begin;
  coef::TileRange range = reinterpret_cast<const coef::TileRange*>(part)[number];
  if (range.size > static_cast<uint32_t>(coef::kMaxPackedTileBytes) || range.size > sample.tile_bytes ||
      range.begin > sample.tile_bytes - range.size)
    range = {0, 0};
  CoefTile tile;
  tile.plane = &plane;
  tile.row = plane.first_row + in_plane / plane.tiles;
  tile.first = (plane.first_tile + in_plane % plane.tiles) * sample.tile_blocks;
  tile.blocks = coef::clamped(plane.blocks_wide - tile.first, 0, sample.tile_blocks);
  tile.begin = coef::clamped(plane.first_block - tile.first, 0, tile.blocks);
  tile.end = coef::clamped(plane.end_block - tile.first, 0, tile.blocks);
  tile.words = reinterpret_cast<const uint32_t*>(part) + range.begin / 4;
  tile.word_count = (range.begin % 4 + range.size + 3) / 4;
  tile.first_bit = 8 * (range.begin % 4);
  tile.size = range.size;
  return tile;
}

struct UnpackTiles {
  static constexpr const char* kName = "coef_tiles";
  static constexpr int kThreads = 8 * coef::kMaxTileBlocks;
  static constexpr int kPitch = 72;  // coefficients from a block to the next: no two in one bank
  struct Shared {
    uint32_t words[coef::kMaxPackedTileBytes / 4 + 2];
    coef::PackedBlock blocks[coef::kMaxTileBlocks];
    int16_t dc[coef::kMaxTileBlocks];
    int16_t coefficients[coef::kMaxTileBlocks * kPitch];
  };
  CoefBatch batch;
  GroupPositions positions;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const CoefPlace place = place_of(batch, coef::kTiles, block.index());
    const CoefTile tile = tile_of(batch, place);
    const coef::TileBits bits{shared.words, tile.word_count};
    block.each([&](int thread) {
      for (uint32_t i = static_cast<uint32_t>(thread); i < tile.word_count; i += kThreads)
        shared.words[i] = tile.words[i];
      for (int i = thread; i < coef::kMaxTileBlocks * kPitch; i += kThreads) shared.coefficients[i] = 0;
    });
    block.each([&](int thread) {
      if (thread == 0 && !find_blocks(tile, bits, shared)) batch.statuses[place.number] = 1;
    });
    block.each([&](int thread) {  // blocks side by side in a warp, so that their values lie together
      if (tile.wants(thread / 8)) store_group(tile, bits, thread / 8, thread % 8, shared);
    });
    block.each([&](int thread) {
      if (tile.wants(thread / 8))
        coef::inverse_transform<coef::kColumnShift>(
            shared.coefficients + static_cast<ptrdiff_t>(thread / 8) * kPitch + thread % 8, 8);
    });
    block.each([&](int thread) {  // a row of samples of the whole tile lies in one piece
      const int number = thread % coef::kMaxTileBlocks;
      const int y = thread / coef::kMaxTileBlocks;
      if (!tile.wants(number)) return;
      int16_t* const row = shared.coefficients + static_cast<ptrdiff_t>(number) * kPitch + 8 * y;
      coef::inverse_transform<coef::kRowShift>(row, 1);
      store_row(tile, place, number, y, row);
    });
  }

 private:
  /// Where blocks [0, tile.end) lie, and their DCs. False for what no writer writes: then the rest is zeros.
  DLPIPE_DEVICE static bool find_blocks(const CoefTile& tile, const coef::TileBits& bits, Shared& shared) {
    uint32_t at = tile.first_bit;
    int found = 0;
    bool fine =
        tile.end > 0 && tile.size > 0 && coef::read_packed_dc(bits, at, tile.blocks, tile.end, shared.dc);
    if (!fine) {
      for (int i = 0; i < coef::kMaxTileBlocks; ++i) shared.dc[i] = 0;
    }
    const uint32_t end = tile.first_bit + 8 * tile.size;
    for (; fine && found < tile.end; ++found) {
      const coef::PackedBlock one = coef::read_packed_block(bits, at);
      // As the host's readers: what isn't wanted is looked at only where it is wide.
      fine = one.end <= end && !(one.overfull && (one.wide || found >= tile.begin));
      if (!fine) break;
      shared.blocks[found] = one;
      at = one.end;
    }
    for (int i = found; i < coef::kMaxTileBlocks; ++i) shared.blocks[i] = coef::empty_block(at);
    // Read to its last block, a tile ends in the byte that it says.
    return fine && (tile.end < tile.blocks || (at - tile.first_bit + 7) / 8 == tile.size);
  }

  /// A group's coefficients, dequantised, to their natural positions; the first group's thread stores the DC.
  DLPIPE_DEVICE void store_group(const CoefTile& tile, const coef::TileBits& bits, int number, int group,
                                 Shared& shared) const {
    int16_t* const to = shared.coefficients + static_cast<ptrdiff_t>(number) * kPitch;
    const int16_t* const quant = tile.plane->quant;
    if (group == 0) to[0] = coef::dequantised(shared.dc[number], quant[0]);
    const coef::PackedBlock& one = shared.blocks[number];
    const int width = one.width(group);
    uint32_t at = one.begin_of(group);
    uint32_t mask = one.mask(group);
    for (uint64_t natural = positions.at[group]; mask != 0; mask >>= 1, natural >>= 8) {
      if ((mask & 1) == 0) continue;
      const auto position = static_cast<int>(natural & 63);
      to[position] = coef::dequantised(coef::packed_value(bits.at(at), width), quant[position]);
      at += static_cast<uint32_t>(width);
    }
  }

  DLPIPE_DEVICE static void store_row(const CoefTile& tile, const CoefPlace& place, int number, int y,
                                      const int16_t* row) {
    const coef::CoefPlane& plane = *tile.plane;
    uint64_t samples = 0;
    for (int x = 0; x < 8; ++x) samples |= uint64_t{coef::sample_of(row[x])} << (8 * x);
    const auto across = static_cast<int64_t>(plane.end_block - plane.first_block);
    const int64_t line = int64_t{8} * (tile.row - plane.first_row) + y;
    place.in_scratch<uint64_t>(plane.samples)[line * across + tile.first + number - plane.first_block] =
        samples;
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
