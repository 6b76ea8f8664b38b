#include "dlpipe/io/data/codec/coef/jpeg_coefficients.h"

#include <algorithm>
#include <array>
#include <memory>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/coef/head.h"
#include "dlpipe/io/data/codec/coef/jpeg_blocks.h"
#include "dlpipe/io/data/codec/coef/jpeg_scan.h"
#include "dlpipe/io/data/codec/coef/packed_code.h"
#include "dlpipe/io/data/codec/coef/record.h"
#include "dlpipe/io/data/codec/coef/tile_reader.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;
using coef::Blocks;
using coef::Frame;

void put_tile(coef::TileForm form, int plane_class, std::span<const int16_t* const> blocks,
              coef::BitWriter& bits) {
  if (form == coef::TileForm::kPacked) {
    coef::put_packed_tile(blocks, bits);
    return;
  }
  coef::TileWriter writer(plane_class, bits);
  for (const int16_t* block : blocks) writer.add(block);
}

std::vector<std::byte> encode_row(const Frame& frame, int row, Blocks& blocks) {
  std::vector<std::byte> lengths;
  std::vector<std::byte> tiles;
  coef::BitWriter bits;
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& component = frame.component[c];
    for (int y = row * component.v; y < row * component.v + frame.block_rows(c, row); ++y) {
      for (int first = 0; first < component.blocks_wide; first += frame.tile_blocks) {
        const int count = std::min(frame.tile_blocks, component.blocks_wide - first);
        std::array<const int16_t*, coef::kMaxTileBlocks> tile{};
        for (int i = 0; i < count; ++i) tile[static_cast<size_t>(i)] = blocks.at(c, first + i, y);
        put_tile(frame.tile_form, coef::plane_class_of(c), std::span(tile).first(static_cast<size_t>(count)),
                 bits);
        coef::put_length(bits.take(tiles), lengths);
      }
    }
  }
  lengths.insert(lengths.end(), tiles.begin(), tiles.end());
  return lengths;
}

/// The source's bytes around its scan, when the scan can be written again as it is.
struct Around {
  bool same = false;
  Bytes head;
  Bytes tail;
};

Around compare_scan(Bytes jpeg, const Frame& frame, Blocks& blocks) {
  const std::optional<coef::SourceScan> scan = coef::find_scan(jpeg);
  if (!scan) return {};
  const Around around{true, jpeg.first(scan->head_bytes), jpeg.subspan(scan->tail_begin)};
  const auto written = coef::write_scan(frame, around.head, Blocks::source, &blocks);
  const Bytes was = jpeg.subspan(scan->head_bytes, scan->tail_begin - scan->head_bytes);
  if (!written || !std::ranges::equal(*written, was)) return {};
  return around;
}

Status read_all(const coef::Record& record, Blocks& blocks) {
  const Frame& frame = record.frame;
  const auto damaged = [] {
    return Status(ErrorCode::kCorrupt,
                  "[codec] coefficient record: a tile is damaged; ingest the file again");
  };
  const auto tile_blocks = std::make_unique<coef::TileBlocks>();
  std::vector<std::byte> padded;
  for (int row = 0; row < frame.mcu_rows; ++row) {
    DLPIPE_ASSIGN_OR_RETURN(const Bytes part, record.row(row));
    coef::RowTiles tiles(frame, row, part);
    for (coef::RowTiles::Tile tile; tiles.next(&tile);) {
      padded.assign(tile.bytes.begin(), tile.bytes.end());
      padded.resize(tile.bytes.size() + coef::kTilePadding);
      const coef::Tile coded{padded.data(),   tile.bytes.size(),
                             frame.tile_form, coef::plane_class_of(tile.component),
                             tile.blocks,     0,
                             tile.blocks};
      if (!coef::read_tile(coded, *tile_blocks)) return damaged();
      for (int i = 0; i < tile.blocks; ++i)
        coef::natural_coefficients(*tile_blocks, i,
                                   blocks.at(tile.component, tile.first_block + i, tile.block_row));
    }
    if (!tiles.complete()) return damaged();
  }
  return {};
}

}  // namespace

struct CoefficientEncoder::State {
  coef::JpegPicture picture;
};
CoefficientEncoder::CoefficientEncoder() : state_(std::make_unique<State>()) {}
CoefficientEncoder::~CoefficientEncoder() = default;

Status CoefficientEncoder::read(Bytes jpeg, const DecodeLimits& limits, const ImageView* pixels) {
  return coef::read_jpeg(jpeg, limits, state_->picture, pixels);
}

Result<std::vector<std::byte>> CoefficientEncoder::encode(Bytes jpeg, const TileKind& tiles) {
  Frame& frame = state_->picture.frame;
  Blocks& blocks = state_->picture.blocks;
  frame.tile_form = tiles.form;
  frame.tile_blocks = tiles.blocks;
  uint64_t size = 0;
  std::vector<std::vector<std::byte>> rows;
  for (int row = 0; row < frame.mcu_rows; ++row) {
    rows.push_back(encode_row(frame, row, blocks));
    size += rows.back().size();
  }
  if (size > UINT32_MAX)
    return Status(ErrorCode::kUnsupported, "[codec] JPEG of more than 4 GiB of coefficients");
  const Around around = compare_scan(jpeg, frame, blocks);
  if (around.same) return coef::build_record(frame, true, rows, around.head, around.tail);
  // A damaged file may hold coefficients that no JPEG can be written with: it would never be exported.
  const std::vector<std::byte> metadata = coef::metadata_of(jpeg);
  const auto again = coef::write_jpeg(frame, blocks, metadata, 0);
  if (!again.ok()) return again.status();
  return coef::build_record(frame, false, rows, metadata, {});
}

Result<std::vector<std::byte>> encode_coefficients(Bytes jpeg, const DecodeLimits& limits,
                                                   const TileKind& tiles) {
  CoefficientEncoder encoder;
  DLPIPE_RETURN_IF_ERROR(encoder.read(jpeg, limits, nullptr));
  return encoder.encode(jpeg, tiles);
}

Result<std::vector<std::byte>> coefficients_to_jpeg(Bytes bytes, const DecodeLimits& limits) {
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  if (int64_t{record.frame.width} * record.frame.height > limits.max_pixels)
    return Status(ErrorCode::kUnsupported,
                  "[codec] coefficient record of more pixels than the limit (--max-pixels)");
  Blocks blocks(record.frame);
  DLPIPE_RETURN_IF_ERROR(read_all(record, blocks));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> around,
                          coef::unpack_head(record.around, size_t{record.head_bytes} + record.tail_bytes));
  const Bytes head = Bytes(around).first(record.head_bytes);
  if (record.source_bytes) {
    const auto scan = coef::write_scan(record.frame, head, Blocks::source, &blocks);
    if (!scan) return Status(ErrorCode::kCorrupt, "[codec] coefficient record: its JPEG head is damaged");
    std::vector<std::byte> jpeg(head.begin(), head.end());
    jpeg.insert(jpeg.end(), scan->begin(), scan->end());
    jpeg.insert(jpeg.end(), around.begin() + record.head_bytes, around.end());
    return jpeg;
  }
  return coef::write_jpeg(record.frame, blocks, head, 0);
}

Result<bool> keeps_source_bytes(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  return record.source_bytes;
}

}  // namespace dlpipe::data
