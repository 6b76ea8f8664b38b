// The kernels of coef_decode.h, in the order of the data flow; ComputeWeights runs first and resets the statuses. At the top is
// the mapping from a block of threads to its sample of a coefficient batch and that sample's memory.
#pragma once

#include "arithmetic/resize_axis.h"
#include "engine/cuda/coef/coef_decode.h"
#include "engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// A block's sample, and the block's number among those of its sample.
struct CoefPlace {
  int64_t number;  // number of the sample
  int64_t block;
  const coef::CoefSample* sample;
  std::byte* scratch;  // of the sample

  template <class T>
  DLPIPE_DEVICE T* in_scratch(uint32_t at) const {
    return reinterpret_cast<T*>(scratch + at);
  }
};

/// The last sample whose first block is not after `block`, by binary search; the same for all threads.
DLPIPE_DEVICE CoefPlace place_of(const CoefBatch& batch, coef::CoefStep step, int64_t block) {
  const auto* const samples = reinterpret_cast<const coef::CoefSample*>(batch.tiles);
  const auto* const begins =
      reinterpret_cast<const uint32_t*>(batch.tiles + batch.capacity * int64_t{sizeof(coef::CoefSample)}) +
      step * (batch.capacity + 1);
  int64_t low = 0;
  int64_t high = batch.capacity;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (begins[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return {low, block - begins[low], samples + low, batch.scratch + samples[low].scratch};
}

// From a packed tile's bits to samples: a block of threads per tile. One thread finds the beginning of each of the
// tile's blocks of coefficients, which is the serial part. Then eight threads process each block: a group of
// coefficients, a column of the transform, a row.

/// The natural positions of eight zigzag positions each, one byte per position. Packed into integers,
/// because a device can't index a constexpr array.
struct GroupPositions {
  uint64_t at[coef::kGroups];
};
constexpr GroupPositions group_positions() {
  GroupPositions positions{};
  for (size_t i = 0; i < coef::kZigzag.size(); ++i)
    positions.at[i / 8] |= uint64_t{coef::kZigzag[i]} << (8 * (i % 8));
  return positions;
}

/// A tile, and the range of its blocks that are needed: [begin, end).
struct CoefTile {
  const coef::CoefPlane* plane;
  int row;    // row of blocks
  int first;  // its first block in that row
  int blocks;
  int begin;
  int end;
  const uint32_t* words;  // the words that contain the tile's bytes
  uint32_t word_count;
  uint32_t first_bit;  // where the tile begins in the first word
  uint32_t size;       // in bytes

  DLPIPE_DEVICE bool wants(int block) const { return begin <= block && block < end; }
};

/// Tiles of a sample are numbered by component, row, tile. Ranges that are outside of the sample's part or
/// have an impossible size become empty.
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
  static constexpr int kPitch = 72;  // coefficients from one block to the next: avoids bank conflicts
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
    block.each([&](int thread) {  // a warp's blocks are adjacent, and so are their values
      if (tile.wants(thread / 8)) store_group(tile, bits, thread / 8, thread % 8, shared);
    });
    block.each([&](int thread) {
      if (tile.wants(thread / 8))
        coef::inverse_transform<coef::kColumnShift>(
            shared.coefficients + static_cast<ptrdiff_t>(thread / 8) * kPitch + thread % 8, 8);
    });
    block.each([&](int thread) {  // a row of samples of the whole tile is contiguous
      const int number = thread % coef::kMaxTileBlocks;
      const int y = thread / coef::kMaxTileBlocks;
      if (!tile.wants(number)) return;
      int16_t* const row = shared.coefficients + static_cast<ptrdiff_t>(number) * kPitch + 8 * y;
      coef::inverse_transform<coef::kRowShift>(row, 1);
      store_row(tile, place, number, y, row);
    });
  }

 private:
  /// Finds blocks [0, tile.end) and their DCs. Returns false for corrupt tiles, whose remaining blocks become zeros.
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
      // Like the host's readers, this checks blocks that aren't needed only if they are wide.
      fine = one.end <= end && !(one.overfull && (one.wide || found >= tile.begin));
      if (!fine) break;
      shared.blocks[found] = one;
      at = one.end;
    }
    for (int i = found; i < coef::kMaxTileBlocks; ++i) shared.blocks[i] = coef::empty_block(at);
    // After its last block, a tile must end at its recorded size.
    return fine && (tile.end < tile.blocks || (at - tile.first_bit + 7) / 8 == tile.size);
  }

  /// Stores a group's coefficients, dequantised, at their natural positions. The first group's thread stores the DC.
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

// From samples of components to oriented pixels: upsampling, colours, orientation. One thread per pixel.

struct ColorPixels {
  static constexpr const char* kName = "coef_pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, coef::kColors, block.index());
    const coef::CoefSample& sample = *place.sample;
    const int count = sample.width * sample.height;
    const auto first = static_cast<int>(place.block * coef::kPixelsPerBlock);
    block.each([&](int thread) {
      for (int k = thread; k < coef::kPixelsPerBlock && first + k < count; k += kThreads)
        store(place, first + k);
    });
  }

 private:
  DLPIPE_DEVICE static void store(const CoefPlace& place, int pixel) {
    const coef::CoefSample& sample = *place.sample;
    const int seen_x = pixel % sample.seen_width();
    const int seen_y = pixel / sample.seen_width();
    const int x = sample.swap_axes ? seen_y : seen_x;
    const int y = sample.swap_axes ? seen_x : seen_y;
    const coef::Rgb color = color_at(place, sample.x + (sample.mirror_x ? sample.width - 1 - x : x),
                                     sample.y + (sample.mirror_y ? sample.height - 1 - y : y));
    uint8_t* const to = place.in_scratch<uint8_t>(sample.pixels) + int64_t{pixel} * sample.channels;
    if (sample.channels == 1) {
      to[0] = sample.components == 1 ? color.r : coef::grey_of(color);
      return;
    }
    to[0] = color.r;
    to[1] = color.g;
    to[2] = color.b;
  }

  /// The colour of the stored image's pixel (x, y).
  DLPIPE_DEVICE static coef::Rgb color_at(const CoefPlace& place, int x, int y) {
    const uint8_t a = component_at(place, 0, x, y);
    if (place.sample->components == 1) return {a, a, a};
    const uint8_t b = component_at(place, 1, x, y);
    const uint8_t c = component_at(place, 2, x, y);
    const coef::ColorModel model = place.sample->color;
    if (model == coef::ColorModel::kYCbCr) return coef::ycc_to_rgb(a, b, c);
    if (model == coef::ColorModel::kRgb) return {a, b, c};
    const uint8_t white = component_at(place, 3, x, y);
    if (model == coef::ColorModel::kCmyk) return coef::inverted_cmyk_to_rgb(a, b, c, white);
    const coef::Rgb ink = coef::ycc_to_rgb(a, b, c);
    return coef::inverted_cmyk_to_rgb(255 - ink.r, 255 - ink.g, 255 - ink.b, white);
  }

  DLPIPE_DEVICE static uint8_t component_at(const CoefPlace& place, int component, int x, int y) {
    const coef::CoefPlane& plane = place.sample->plane[component];
    const uint8_t* const samples = place.in_scratch<uint8_t>(plane.samples);
    const auto row = int64_t{8} * (plane.end_block - plane.first_block);
    const int left = 8 * plane.first_block;
    const int top = 8 * plane.first_row;
    return coef::upsampled(plane.sampling, x, y,
                           [&](int i, int j) { return samples[(j - top) * row + i - left]; });
  }
};

// The antialiased resize of augment/resize.h on crops of all sizes: tables of weights first, then two
// passes in the order that Pillow uses for the crop's size. One thread per output pixel of an axis, then
// one per output byte. A flip reverses the table of the horizontal axis.

/// The weights of an axis: the parts of CoefAxis::table. Values of neighbouring output pixels are adjacent.
struct AxisWeights {
  int32_t* begins;
  int32_t* taps;
  int32_t* weights;
};
DLPIPE_DEVICE AxisWeights weights_of(const CoefPlace& place, const coef::CoefAxis& axis) {
  auto* const begins = place.in_scratch<int32_t>(axis.table);
  return {begins, begins + axis.count, begins + int64_t{2} * axis.count};
}

struct ComputeWeights {
  static constexpr const char* kName = "coef_weights";
  static constexpr int kThreads = static_cast<int>(coef::kWeightsPerBlock);
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, coef::kWeights, block.index());
    const coef::CoefSample& sample = *place.sample;
    block.each([&](int thread) {
      if (place.block == 0 && thread == 0) batch.statuses[place.number] = 0;
      if (sample.components == 0) return;
      const auto i = static_cast<int>(place.block * coef::kWeightsPerBlock) + thread;
      if (i < sample.across.count) {
        store(place, sample.across, i, sample.flip);
      } else if (i < sample.across.count + sample.down.count) {
        store(place, sample.down, i - sample.across.count, false);
      }
    });
  }

 private:
  DLPIPE_DEVICE static void store(const CoefPlace& place, const coef::CoefAxis& axis, int i, bool flip) {
    const AxisWeights to = weights_of(place, axis);
    const ResizeAxis resize(axis.source_size, 0, axis.source_size, axis.out_size);
    const int pixel = axis.first + (flip ? axis.count - 1 - i : i);
    const int begin = resize.begin(pixel);
    const int taps = coef::clamped(resize.end(pixel) - begin, 0, axis.most_taps);
    const double middle = resize.center(pixel);
    const double per_pixel = 1.0 / resize.support;
    double sum = 0;
    for (int t = 0; t < taps; ++t) sum += resize.real_weight(begin + t, middle, per_pixel);
    to.begins[i] = coef::clamped(begin - axis.source_begin, 0, axis.source_count - taps);
    to.taps[i] = taps;
    for (int t = 0; t < taps; ++t)
      to.weights[int64_t{t} * axis.count + i] =
          ResizeAxis::fixed_weight(resize.real_weight(begin + t, middle, per_pixel), sum);
  }
};

/// One of the two passes. The first reads the region's pixels; the second reads the first's result and writes to the batch.
template <bool kSecond>
struct ResizePass {
  static constexpr const char* kName = kSecond ? "coef_second_pass" : "coef_first_pass";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, kSecond ? coef::kSecondPass : coef::kFirstPass, block.index());
    const coef::CoefSample& sample = *place.sample;
    const bool down = sample.vertical_first != kSecond;
    const coef::CoefAxis& axis = down ? sample.down : sample.across;
    const AxisWeights weights = weights_of(place, axis);
    const uint8_t* const from = place.in_scratch<uint8_t>(kSecond ? sample.between : sample.pixels);
    uint8_t* const to = kSecond ? batch.pixels + sample.out : place.in_scratch<uint8_t>(sample.between);
    const int in_row = kSecond ? sample.between_row() : sample.seen_width() * sample.channels;
    const int out_row = kSecond ? sample.across.count * sample.channels : sample.between_row();
    const int count = out_row * (kSecond ? sample.down.count : sample.between_rows());
    const auto first = static_cast<int>(place.block * coef::kBytesPerBlock);
    block.each([&](int thread) {
      for (int k = thread; k < coef::kBytesPerBlock && first + k < count; k += kThreads) {
        const int y = (first + k) / out_row;
        const int x = (first + k) % out_row;
        const int i = down ? y : x / sample.channels;
        const int begin = weights.begins[i];
        const int step = down ? in_row : sample.channels;
        const uint8_t* pixel =
            down ? from + int64_t{begin} * in_row + x
                 : from + int64_t{y} * in_row + begin * sample.channels + x % sample.channels;
        int32_t sum = kWeightHalf;
        for (int t = 0; t < weights.taps[i]; ++t, pixel += step)
          sum += weights.weights[int64_t{t} * axis.count + i] * *pixel;
        to[first + k] = weighted_pixel(sum);
      }
    });
  }
};

// Runs all kernels, one after another.

inline void decode_coefficients(const CoefBatch& batch) {
  const auto& blocks = batch.work.blocks;
  launch(ComputeWeights{batch}, blocks[coef::kWeights]);
  launch(UnpackTiles{batch, group_positions()}, blocks[coef::kTiles]);
  launch(ColorPixels{batch}, blocks[coef::kColors]);
  launch(ResizePass<false>{batch}, blocks[coef::kFirstPass]);
  launch(ResizePass<true>{batch}, blocks[coef::kSecondPass]);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
