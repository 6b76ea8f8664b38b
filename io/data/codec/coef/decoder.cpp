#include "io/data/codec/coef/decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/kernels.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_reader.h"
#include "io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

using coef::ColorModel;
using coef::Component;
using coef::Frame;
using coef::Upsampling;

constexpr ptrdiff_t kRowMargin = 64;  // bytes before each row; kRowPadding follows it

/// The part of one component that a region needs, and the samples of the last two MCU rows.
struct Plane : coef::RegionBlocks {
  int ring_rows = 0;  // sample rows kept: those of two MCU rows
  ptrdiff_t stride = 0;
  coef::QuantTable quant{};
  std::vector<uint8_t> samples;
  std::vector<uint8_t> widened;  // one row of pixels

  uint8_t* row(int y) { return samples.data() + kRowMargin + (y % ring_rows) * stride; }
};

}  // namespace

struct CoefDecoder::State {
  DecodeLimits limits;
  std::array<Plane, coef::kMaxComponents> planes;
  std::array<coef::TileBlocks, 2> blocks;
  std::array<std::vector<std::byte>, 2> padded;  // copies of tiles too near the record's end
  std::vector<uint16_t> columns;
  std::vector<uint8_t> pixels;  // one row
  std::vector<uint8_t> rgb;     // one row of a YCCK image

  // The call in progress.
  const std::byte* end = nullptr;  // of the record
  coef::TileForm tile_form = coef::TileForm::kCoded;
  Region region;
  ImageView out;
};

namespace {

using State = CoefDecoder::State;

Status damaged() {
  return Status(ErrorCode::kCorrupt, "[codec] coefficient record: a tile is corrupt; ingest the file again");
}

void plan(const Frame& frame, State& s) {
  const Region& region = s.region;
  for (int c = 0; c < frame.components; ++c) {
    const Component& component = frame.component[c];
    Plane& plane = s.planes[c];
    static_cast<coef::RegionBlocks&>(plane) = coef::region_blocks(frame, c, region);
    plane.ring_rows = 2 * 8 * component.v;
    plane.stride =
        kRowMargin + ptrdiff_t{8} * (plane.end_block - plane.first_block) + ptrdiff_t{coef::kRowPadding};
    plane.samples.resize(static_cast<size_t>(plane.stride * plane.ring_rows + kRowMargin));
    if (plane.upsampling != Upsampling::kNone)
      plane.widened.resize(static_cast<size_t>((plane.stride + kRowMargin) * plane.fx));
    for (size_t i = 0; i < plane.quant.size(); ++i) plane.quant[i] = static_cast<int16_t>(component.quant[i]);
    s.columns.resize(std::max(s.columns.size(), static_cast<size_t>(plane.stride + kRowMargin)));
  }
  s.pixels.resize(static_cast<size_t>(region.width) * 4 + coef::kRowPadding);
}

/// A tile that the region touches.
struct Wanted {
  coef::Tile coded;
  int component = 0;
  int block_row = 0;
  int first_block = 0;  // of the tile, in its row
};

/// Returns false if the region needs nothing from this tile. `padded` holds a copy of the tile if the record ends too soon
/// after it.
bool select(const coef::RowTiles::Tile& tile, State& s, std::vector<std::byte>& padded, Wanted* wanted) {
  const Plane& plane = s.planes[tile.component];
  const int begin = std::max(tile.first_block, plane.first_block);
  const int end = std::min(tile.first_block + tile.blocks, plane.end_block);
  if (begin >= end || tile.block_row < plane.first_row || tile.block_row >= plane.end_row) return false;
  const std::byte* bytes = tile.bytes.data();
  if (static_cast<size_t>(s.end - (bytes + tile.bytes.size())) < coef::kTilePadding) {
    padded.assign(tile.bytes.begin(), tile.bytes.end());
    padded.resize(tile.bytes.size() + coef::kTilePadding);
    bytes = padded.data();
  }
  *wanted = {{bytes, tile.bytes.size(), s.tile_form, coef::plane_class_of(tile.component), tile.blocks,
              begin - tile.first_block, end - tile.first_block},
             tile.component,
             tile.block_row,
             tile.first_block};
  return true;
}

void store_samples(const Wanted& tile, const coef::TileBlocks& blocks, State& s) {
  Plane& plane = s.planes[tile.component];
  uint8_t* const to = plane.row(8 * tile.block_row) +
                      ptrdiff_t{8} * (tile.first_block + tile.coded.begin - plane.first_block);
  coef::kernels().samples(blocks, tile.coded.begin, tile.coded.end - tile.coded.begin, plane.quant, to,
                          plane.stride);
}

Status decode_mcu_row(const coef::Record& record, int row, State& s) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, record.row(row));
  coef::RowTiles tiles(record.frame, row, bytes);
  std::array<Wanted, 2> pair;
  size_t waiting = 0;
  for (coef::RowTiles::Tile tile; tiles.next(&tile);) {
    if (!select(tile, s, s.padded[waiting], &pair[waiting]) || ++waiting < 2) continue;
    waiting = 0;
    if (!coef::read_tiles(pair[0].coded, s.blocks[0], pair[1].coded, s.blocks[1])) return damaged();
    for (size_t i = 0; i < 2; ++i) store_samples(pair[i], s.blocks[i], s);
  }
  if (waiting == 1) {
    if (!coef::read_tile(pair[0].coded, s.blocks[0])) return damaged();
    store_samples(pair[0], s.blocks[0], s);
  }
  return tiles.complete() ? Status() : damaged();
}

/// Row y of the image in one component, starting at pixel `first_block * 8 * fx`.
const uint8_t* component_row(const Frame& frame, int c, int y, State& s) {
  const Component& component = frame.component[c];
  Plane& plane = s.planes[c];
  const int here = y / plane.fy;
  if (plane.upsampling == Upsampling::kNone) return plane.row(here);
  const coef::Kernels& kernels = coef::kernels();
  const int count = std::min(8 * plane.end_block, component.width) - 8 * plane.first_block;
  uint8_t* const out = plane.widened.data();
  // The nearer of the rows above and below; the first and last row are used in place of the rows beyond them.
  const int other = std::clamp(y % plane.fy < plane.fy / 2 ? here - 1 : here + 1, 0, component.height - 1);
  switch (plane.upsampling) {
    case Upsampling::kNone:
      break;
    case Upsampling::kHigh:
      kernels.between(plane.row(here), plane.row(other), coef::row_bias(y % 2 != 0), count, out);
      break;
    case Upsampling::kWide:
    case Upsampling::kWideAndHigh: {
      const bool vertical = plane.upsampling == Upsampling::kWideAndHigh;
      uint16_t* const columns = s.columns.data() + kRowMargin / 2;
      kernels.columns(plane.row(here), vertical ? plane.row(other) : nullptr, count, columns);
      columns[-1] = columns[0];
      columns[count] = columns[count - 1];
      kernels.widen(columns, count, vertical, out);
      break;
    }
    case Upsampling::kRepeat: {
      const uint8_t* const from = plane.row(here);
      for (int x = 0; x < count; ++x)
        std::memset(out + ptrdiff_t{x} * plane.fx, from[x], static_cast<size_t>(plane.fx));
      break;
    }
  }
  return out;
}

/// Converts the components of one row to grey, RGB or CMYK pixels; returns the number of channels.
int join_components(const Frame& frame, const std::array<const uint8_t*, coef::kMaxComponents>& from,
                    int count, std::vector<uint8_t>& rgb, uint8_t* to) {
  switch (frame.color) {
    case ColorModel::kGrey:
      std::memcpy(to, from[0], static_cast<size_t>(count));
      return 1;
    case ColorModel::kYCbCr:
      coef::kernels().ycc_to_rgb(from[0], from[1], from[2], count, to);
      return 3;
    case ColorModel::kRgb:
      for (int x = 0; x < count; ++x) {
        for (int c = 0; c < 3; ++c) to[3 * x + c] = from[c][x];
      }
      return 3;
    case ColorModel::kCmyk:
      for (int x = 0; x < count; ++x) {
        for (int c = 0; c < 4; ++c) to[4 * x + c] = from[c][x];
      }
      return 4;
    case ColorModel::kYcck:  // inverted RGB, then K
      rgb.resize(static_cast<size_t>(count) * 3);
      coef::kernels().ycc_to_rgb(from[0], from[1], from[2], count, rgb.data());
      for (int x = 0; x < count; ++x) {
        const uint8_t* const color = rgb.data() + ptrdiff_t{3} * x;
        for (int c = 0; c < 3; ++c) to[4 * x + c] = static_cast<uint8_t>(255 - color[c]);
        to[4 * x + 3] = from[3][x];
      }
      return 4;
  }
  return 0;
}

void store_row(const Frame& frame, int y, State& s) {
  const int count = s.region.width;
  std::array<const uint8_t*, coef::kMaxComponents> from{};
  for (int c = 0; c < frame.components; ++c) {
    const Plane& plane = s.planes[c];
    from[c] = component_row(frame, c, y, s) + (s.region.x - ptrdiff_t{8} * plane.first_block * plane.fx);
  }
  uint8_t* const to = s.out.row(y - s.region.y);
  const bool direct =
      (frame.components == 3 && s.out.channels == 3) || (frame.components == 1 && s.out.channels == 1);
  uint8_t* const pixels = direct ? to : s.pixels.data();
  int channels = join_components(frame, from, count, s.rgb, pixels);
  if (direct) return;
  if (channels == 4) {
    inverted_cmyk_to_rgb_row(pixels, pixels, count);
    channels = 3;
  }
  convert_row(pixels, channels, to, s.out.channels, count);
}

Status decode_region(const coef::Record& record, State& s) {
  const Frame& frame = record.frame;
  plan(frame, s);
  const coef::RowRange rows = coef::region_rows(frame, s.region);
  const int bottom = s.region.y + s.region.height;
  int y = s.region.y;
  for (int row = rows.first; row < rows.end; ++row) {
    DLPIPE_RETURN_IF_ERROR(decode_mcu_row(record, row, s));
    // The last pixel rows of an MCU row wait for the chroma below them.
    const int waiting = row + 1 < rows.end ? frame.max_v / 2 : 0;
    for (; y < std::min(bottom, 8 * frame.max_v * (row + 1) - waiting); ++y) store_row(frame, y, s);
  }
  return {};
}

}  // namespace

CoefDecoder::CoefDecoder(const DecodeLimits& limits) : state_(std::make_unique<State>()) {
  state_->limits = limits;
}
CoefDecoder::~CoefDecoder() = default;

Status CoefDecoder::decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  State& s = *state_;
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  const Frame& frame = record.frame;
  if (int64_t{frame.width} * frame.height > s.limits.max_pixels)
    return Status(ErrorCode::kUnsupported,
                  "[codec] the coefficient record has more pixels than --max-pixels allows");
  if (int64_t{region.x} + region.width > frame.width || int64_t{region.y} + region.height > frame.height)
    return misuse("codec", "the region is outside the image");
  s.end = bytes.data() + bytes.size();
  s.tile_form = frame.tile_form;
  s.region = region;
  s.out = out;
  try {
    return decode_region(record, s);
  } catch (...) {
    return status_from_current_exception("codec");
  }
}

size_t CoefDecoder::scratch_bytes() const {
  size_t bytes = sizeof(State) + state_->columns.capacity() * sizeof(uint16_t) + state_->pixels.capacity() +
                 state_->rgb.capacity();
  for (const auto& tile : state_->padded) bytes += tile.capacity();
  for (const Plane& plane : state_->planes) bytes += plane.samples.capacity() + plane.widened.capacity();
  return bytes;
}

}  // namespace dlpipe::data
