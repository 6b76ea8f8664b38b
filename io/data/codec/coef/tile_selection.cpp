#include "io/data/codec/coef/tile_selection.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "arithmetic/resize_axis.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/record.h"

namespace dlpipe::data {

namespace {

using coef::CoefAxis;
using coef::CoefPlane;
using coef::CoefSample;
using coef::Frame;

constexpr int kLongestSide = 65535;

Status not_for_a_gpu(const char* why) {
  return Status(ErrorCode::kUnsupported, why);
}
bool fits(int begin, int size, int whole) {
  return begin >= 0 && size > 0 && size <= whole && begin <= whole - size;
}
bool is_side(int size) {
  return size > 0 && size <= kLongestSide;
}

// The next row's lengths; rows are stored one after the other.
constexpr size_t kNextRowBytes = 128;

/// Prefetches lines that will be read soon: otherwise copying would wait for each tile's lines separately.
void fetch(std::span<const std::byte> bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes.size(); at += kLine) __builtin_prefetch(bytes.data() + at);
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + coef::kCoefAlignment - 1) / coef::kCoefAlignment * coef::kCoefAlignment;
}

/// Returns false unless the window needs exactly the `source_count` pixels that exist.
bool fill_axis(int source_size, int out_size, int first, int count, int source_count, CoefAxis& to) {
  const ResizeAxis axis(source_size, 0, source_size, out_size);
  to = {};
  to.source_size = source_size;
  to.out_size = out_size;
  to.first = first;
  to.count = count;
  to.source_begin = axis.begin(first);
  to.source_count = axis.end(first + count - 1) - to.source_begin;
  to.most_taps = std::min(axis.max_taps(), source_count);
  return to.source_count == source_count;
}

bool fill_resize(const CoefCrop& crop, CoefSample& sample) {
  const Region& window = crop.window;
  for (const int side : {crop.source_width, crop.source_height, crop.out_width, crop.out_height}) {
    if (!is_side(side)) return false;
  }
  if (!fits(window.x, window.width, crop.out_width) || !fits(window.y, window.height, crop.out_height))
    return false;
  sample.vertical_first =
      is_vertical_first(crop.source_width, crop.source_height, crop.out_width, crop.out_height);
  return fill_axis(crop.source_width, crop.out_width, window.x, window.width, crop.region.width,
                   sample.across) &&
         fill_axis(crop.source_height, crop.out_height, window.y, window.height, crop.region.height,
                   sample.down);
}

void fill_planes(const Frame& frame, const Region& stored, CoefSample& sample) {
  sample.components = frame.components;
  sample.color = frame.color;
  sample.tile_blocks = frame.tile_blocks;
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& component = frame.component[c];
    const coef::RegionBlocks blocks = coef::region_blocks(frame, c, stored);
    CoefPlane& plane = sample.plane[c];
    for (size_t i = 0; i < component.quant.size(); ++i)
      plane.quant[i] = static_cast<int16_t>(component.quant[i]);
    plane.sampling = {blocks.upsampling, component.width, component.height, blocks.fx, blocks.fy};
    plane.blocks_wide = component.blocks_wide;
    plane.first_block = blocks.first_block;
    plane.end_block = blocks.end_block;
    plane.first_row = blocks.first_row;
    plane.end_row = blocks.end_row;
    plane.first_tile = blocks.first_block / frame.tile_blocks;
    plane.tiles = coef::divide_up(blocks.end_block, frame.tile_blocks) - plane.first_tile;
    plane.tile_table = static_cast<uint32_t>(sample.tile_count);
    sample.tile_count += plane.tiles * (plane.end_row - plane.first_row);
  }
}

/// Divides the sample's scratch memory; returns false if it exceeds 32 bits.
bool fill_scratch(CoefSample& sample) {
  uint64_t bytes = 0;
  const auto take = [&](uint64_t size) {
    const uint64_t at = bytes;
    bytes += aligned(size);
    return static_cast<uint32_t>(at);
  };
  for (CoefAxis* axis : {&sample.across, &sample.down})
    axis->table = take(sizeof(int32_t) * static_cast<uint64_t>(axis->count) *
                       (2 + static_cast<uint64_t>(axis->most_taps)));
  for (int c = 0; c < sample.components; ++c) {
    CoefPlane& plane = sample.plane[c];
    plane.samples = take(uint64_t{64} * static_cast<uint64_t>(plane.end_block - plane.first_block) *
                         static_cast<uint64_t>(plane.end_row - plane.first_row));
  }
  sample.pixels = take(static_cast<uint64_t>(sample.width) * static_cast<uint64_t>(sample.height) *
                       static_cast<uint64_t>(sample.channels));
  sample.between =
      take(static_cast<uint64_t>(sample.between_row()) * static_cast<uint64_t>(sample.between_rows()));
  sample.scratch_bytes = static_cast<uint32_t>(bytes);
  const uint64_t out = static_cast<uint64_t>(sample.across.count) * static_cast<uint64_t>(sample.down.count) *
                       static_cast<uint64_t>(sample.channels);
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  return bytes <= kMost && out <= kMost;
}

}  // namespace

CoefCrop whole_crop(const Region& region, int out_width, int out_height, bool flip, int channels) {
  return {region, region.width, region.height, out_width, out_height, {0, 0, out_width, out_height},
          flip,   channels};
}

Result<size_t> TileSelector::select(std::span<const std::byte> bytes, const CoefCrop& crop,
                                    CoefSample& sample) {
  if (bytes.size() < coef::kMagic.size() ||
      std::memcmp(bytes.data(), coef::kMagic.data(), coef::kMagic.size()) != 0)
    return not_for_a_gpu("[codec] not a coefficient record");
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  const Frame& frame = record.frame;
  if (frame.tile_form != coef::TileForm::kPacked) return not_for_a_gpu("[codec] coded tiles");
  if (int64_t{frame.width} * frame.height > limits_.max_pixels)
    return not_for_a_gpu("[codec] the coefficient record has more pixels than --max-pixels allows");
  const bool swaps = swaps_axes(frame.orientation);
  const int seen_width = swaps ? frame.height : frame.width;
  const int seen_height = swaps ? frame.width : frame.height;
  const Region& region = crop.region;
  if (!fits(region.x, region.width, seen_width) || !fits(region.y, region.height, seen_height))
    return misuse("codec", "the region is outside the image");
  if (crop.channels != 1 && crop.channels != 3) return misuse("codec", "a crop must have 1 or 3 channels");
  sample = {};
  if (!fill_resize(crop, sample))
    return misuse("codec", "the crop's region is not the one that its window depends on");
  const Region stored = stored_region(region, seen_width, seen_height, frame.orientation);
  sample.channels = crop.channels;
  sample.flip = crop.flip;
  sample.x = stored.x;
  sample.y = stored.y;
  sample.width = stored.width;
  sample.height = stored.height;
  sample.swap_axes = swaps;
  sample.mirror_x = mirrors_stored_x(frame.orientation);
  sample.mirror_y = mirrors_stored_y(frame.orientation);
  fill_planes(frame, stored, sample);
  if (!fill_scratch(sample)) return not_for_a_gpu("[codec] the crop has too many pixels");
  try {
    DLPIPE_RETURN_IF_ERROR(fill_tiles(record, stored, sample));
  } catch (...) {
    return status_from_current_exception("codec");
  }
  return size_t{sample.tile_bytes};
}

bool TileSelector::take_tile(const coef::RowTiles::Tile& tile, const CoefSample& sample) {
  const CoefPlane& plane = sample.plane[tile.component];
  const int row = tile.block_row - plane.first_row;
  const int column =
      (tile.first_block >> std::countr_zero(static_cast<unsigned>(sample.tile_blocks))) - plane.first_tile;
  if (row < 0 || tile.block_row >= plane.end_row || column < 0 || column >= plane.tiles) return true;
  if (tile.bytes.size() > static_cast<size_t>(coef::kMaxPackedTileBytes)) return false;
  ranges_[plane.tile_table + static_cast<size_t>(row) * static_cast<size_t>(plane.tiles) +
          static_cast<size_t>(column)] = {
      static_cast<uint32_t>(ranges_.size() * sizeof(coef::TileRange) + bytes_),
      static_cast<uint32_t>(tile.bytes.size())};
  bytes_ += tile.bytes.size();
  fetch(tile.bytes);
  if (!runs_.empty() && runs_.back().begin + runs_.back().size == tile.bytes.data()) {
    runs_.back().size += tile.bytes.size();
  } else {
    runs_.push_back({tile.bytes.data(), tile.bytes.size()});
  }
  return true;
}

Status TileSelector::fill_tiles(const coef::Record& record, const Region& stored, CoefSample& sample) {
  ranges_.assign(static_cast<size_t>(sample.tile_count), coef::TileRange{0, 0});
  runs_.clear();
  bytes_ = 0;
  const coef::RowRange rows = coef::region_rows(record.frame, stored);
  for (int row = rows.first; row < rows.end; ++row) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, record.row(row));
    fetch({bytes.data() + bytes.size(), row + 1 < rows.end ? kNextRowBytes : 0});
    coef::RowTiles tiles(record.frame, row, bytes);
    for (coef::RowTiles::Tile tile; tiles.next(&tile);) {
      if (!take_tile(tile, sample)) return not_for_a_gpu("[codec] a tile is too large");
    }
    if (!tiles.complete())
      return Status(ErrorCode::kCorrupt,
                    "[codec] coefficient record: a tile is corrupt; ingest the file again");
  }
  const uint64_t all = aligned(ranges_.size() * sizeof(coef::TileRange) + bytes_);
  if (all > std::numeric_limits<int32_t>::max()) return not_for_a_gpu("[codec] the crop has too many bytes");
  sample.tile_bytes = static_cast<uint32_t>(all);
  return {};
}

void TileSelector::copy(std::span<std::byte> to) const {
  std::byte* at = to.data();
  const size_t table = ranges_.size() * sizeof(coef::TileRange);
  std::memcpy(at, ranges_.data(), table);
  at += table;
  for (const Run& run : runs_) {
    std::memcpy(at, run.begin, run.size);
    at += run.size;
  }
  std::fill(at, to.data() + to.size(), std::byte{0});
}

}  // namespace dlpipe::data
