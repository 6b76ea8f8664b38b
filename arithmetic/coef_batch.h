// A batch of JPEG crops, sent to a GPU as packed coefficient tiles. Plain data that io/data fills
// (codec/coef/tile_selection.h), pipeline passes on (stages/device_decode.h) and engine/cuda reads (coef_decode.h).
//
// Everything is in one block, the tile memory, so that one copy transfers it to the device:
//
//   CoefSample[capacity]               each sample's tables, geometry and resize
//   u32[kCoefSteps][capacity + 1]      which of a kernel's blocks process which sample
//   each sample's tiles, 8-aligned     TileRange[...], then the tiles' bytes
//
// Samples' parts may be in any order: a worker reserves space by advancing one counter. A sample that is decoded on
// the host has no components; no kernel touches its pixels. Call number_coef_blocks() once all samples are complete,
// on the tile memory in host memory. Nothing here owns memory. Sizes are in bytes unless stated otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arithmetic/coefficients.h"
#include "dlpipe/error.h"

namespace dlpipe {
class Stream;  // dlpipe/device.h
}

namespace dlpipe::coef {

/// The kernels, in order.
enum CoefStep : int { kWeights, kTiles, kColors, kFirstPass, kSecondPass, kCoefSteps };
/// The work of one thread block: output pixels of both axes (kWeights), one tile (kTiles), pixels (kColors), bytes (the passes).
inline constexpr int64_t kWeightsPerBlock = 128;
inline constexpr int64_t kPixelsPerBlock = 1024;
inline constexpr int64_t kBytesPerBlock = 2048;
inline constexpr size_t kCoefAlignment = 8;

/// A tile's bytes, counted from the beginning of its sample's part of the tile memory.
struct TileRange {
  uint32_t begin;
  uint32_t size;
};

/// A component of a sample, and which of its blocks are decoded.
struct CoefPlane {
  int16_t quant[64];  // natural order
  Sampling sampling;
  int32_t blocks_wide;  // of the component
  int32_t first_block;  // decoded: columns of blocks [first_block, end_block),
  int32_t end_block;
  int32_t first_row;  // rows of blocks [first_row, end_row)
  int32_t end_row;
  int32_t first_tile;   // in each row of blocks; tiles may include blocks that aren't decoded
  int32_t tiles;        // in each row
  uint32_t tile_table;  // the first one's TileRange
  uint32_t samples;     // in the sample's scratch: rows of 8 (end_block - first_block) bytes
};

/// One axis of the resize.
struct CoefAxis {
  int32_t source_size;
  int32_t out_size;
  int32_t first;  // the window: output pixels [first, first + count)
  int32_t count;
  int32_t source_begin;  // the first available source pixel
  int32_t source_count;
  int32_t most_taps;
  /// In the sample's scratch: i32 begins[count], counted from source_begin, taps[count],
  /// weights[most_taps][count].
  uint32_t table;
};

/// One sample: the region of a stored image that is decoded, oriented, resized and flipped.
struct CoefSample {
  CoefPlane plane[kMaxComponents];
  CoefAxis across;
  CoefAxis down;
  int32_t components;  // 0: decoded on the host
  int32_t channels;    // 1 or 3, of the output: u8 [down.count, across.count, channels]
  int32_t tile_blocks;
  int32_t tile_count;
  int32_t x, y, width, height;  // the region, in the image as stored
  ColorModel color;
  bool swap_axes, mirror_x, mirror_y;  // from stored to oriented (dlpipe/image.h)
  bool flip;                           // left and right swapped in the output
  bool vertical_first;
  uint32_t pixels;         // in the sample's scratch: the oriented region, [height, width, channels]
  uint32_t between;        // also there: the result of the first pass
  uint32_t scratch_bytes;  // a multiple of kCoefAlignment
  uint32_t tile_bytes;     // a multiple of kCoefAlignment
  uint64_t begin;          // offset of the sample's part in the tile memory
  uint64_t scratch;        // offset of its scratch in the scratch of all samples (number_coef_blocks)
  uint64_t out;            // offset of its pixels in the batch's

  DLPIPE_HOST_DEVICE int seen_width() const { return swap_axes ? height : width; }
  DLPIPE_HOST_DEVICE int seen_height() const { return swap_axes ? width : height; }
  /// Bytes per row and number of rows of the first pass's result.
  DLPIPE_HOST_DEVICE int between_row() const {
    return (vertical_first ? seen_width() : across.count) * channels;
  }
  DLPIPE_HOST_DEVICE int between_rows() const { return vertical_first ? down.count : seen_height(); }
};

/// The head of tile memory for `capacity` samples.
struct CoefHead {
  std::span<CoefSample> samples;
  std::span<uint32_t> begins;
};
constexpr size_t coef_head_bytes(size_t capacity) {
  const size_t bytes =
      capacity * sizeof(CoefSample) + (capacity + 1) * static_cast<size_t>(kCoefSteps) * sizeof(uint32_t);
  return (bytes + kCoefAlignment - 1) / kCoefAlignment * kCoefAlignment;
}
/// `tiles`: aligned to kCoefAlignment, in host memory.
CoefHead coef_head(std::byte* tiles, size_t capacity);

/// The resources for decoding a batch.
struct CoefWork {
  int64_t blocks[kCoefSteps] = {};
  uint64_t scratch_bytes = 0;
};

/// Assigns scratch to every sample and a range of thread blocks of each kernel: sample i's begin at
/// begins[step][i]. `samples` are all of the head's; those beyond the batch's count have no components.
/// kUnsupported if a grid would be too large.
Result<CoefWork> number_coef_blocks(const CoefHead& head);

/// Tile memory on a device, and where its samples' pixels are written. All in device memory; tiles and
/// scratch are aligned to kCoefAlignment.
struct CoefBatch {
  const std::byte* tiles = nullptr;
  int64_t capacity = 0;  // the tile memory's samples
  CoefWork work;
  std::byte* scratch = nullptr;
  uint8_t* pixels = nullptr;    // sample i's at CoefSample::out
  int32_t* statuses = nullptr;  // [capacity]: 0, or 1 if a tile is corrupt and the pixels are meaningless
  size_t tile_bytes = 0;        // used; this and the next only for reports of the device's memory
  size_t pixel_bytes = 0;
};

/// Queues the decoding of the batch in `stream`, a stream of a device that has such a function, and returns.
/// Overwrites scratch and pixels of all samples except those without components. Even with corrupt tiles, it
/// only accesses a sample's own parts. Throws Error if the device accepts no work.
using CoefDecode = void (*)(const CoefBatch& batch, Stream& stream);

}  // namespace dlpipe::coef
