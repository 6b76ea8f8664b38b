#include "io/data/codec/coef/jpeg_coefficients.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "io/data/codec/coef/jpeg_blocks.h"
#include "io/data/codec/coef/jpeg_scan.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_code.h"
#include "io/data/codec/coef/tile_reader.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;
using coef::Blocks;
using coef::Frame;

void put_tile(coef::TileForm form, int plane_class, std::span<const coef::ZigzagBlock> blocks,
              coef::BitWriter& bits) {
  if (form == coef::TileForm::kPacked) {
    coef::put_packed_tile(blocks, bits);
    return;
  }
  coef::TileWriter writer(plane_class, bits);
  for (const coef::ZigzagBlock& block : blocks) writer.add(block);
}

std::vector<std::byte> encode_row(const Frame& frame, int row, const coef::ZigzagRow& zigzag) {
  std::vector<std::byte> lengths;
  std::vector<std::byte> tiles;
  coef::BitWriter bits;
  for (int c = 0; c < frame.components; ++c) {
    for (int y = 0; y < frame.block_rows(c, row); ++y) {
      std::span<const coef::ZigzagBlock> left = zigzag.blocks(c, y);
      while (!left.empty()) {
        const size_t count = std::min(static_cast<size_t>(frame.tile_blocks), left.size());
        put_tile(frame.tile_form, coef::plane_class_of(c), left.first(count), bits);
        coef::put_length(bits.take(tiles), lengths);
        left = left.subspan(count);
      }
    }
  }
  lengths.insert(lengths.end(), tiles.begin(), tiles.end());
  return lengths;
}

Status read_all(const coef::Record& record, Blocks& blocks) {
  const Frame& frame = record.frame;
  const auto damaged = [] {
    return Status(ErrorCode::kCorrupt,
                  "[codec] coefficient record: a tile is corrupt; ingest the file again");
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
  coef::JpegImage image;
  coef::ZigzagRow zigzag;
};
CoefficientEncoder::CoefficientEncoder() : state_(std::make_unique<State>()) {}
CoefficientEncoder::~CoefficientEncoder() = default;

Status CoefficientEncoder::read(Bytes jpeg, const DecodeLimits& limits, const ImageView* pixels) {
  return coef::read_jpeg(jpeg, limits, state_->image, pixels);
}

Result<std::vector<std::byte>> CoefficientEncoder::encode(Bytes jpeg, const TileKind& tiles) {
  if (jpeg.size() > coef::kMostHeadBytes)
    return Status(ErrorCode::kUnsupported,
                  "[codec] the JPEG is larger than 1 GiB, too large for a coefficient record");
  Frame& frame = state_->image.frame;
  Blocks& blocks = state_->image.blocks;
  frame.tile_form = tiles.form;
  frame.tile_blocks = tiles.blocks;
  // Written row by row with the tiles, while the blocks are in the cache.
  const std::optional<coef::SourceScan> scan = coef::find_scan(jpeg);
  std::optional<coef::SourceScanWriter> again;
  if (scan) again = coef::SourceScanWriter::begin(frame, jpeg.first(scan->head_bytes));
  uint64_t size = 0;
  std::vector<std::vector<std::byte>> rows;
  for (int row = 0; row < frame.mcu_rows; ++row) {
    state_->zigzag.fill(frame, row, Blocks::source, &blocks);
    rows.push_back(encode_row(frame, row, state_->zigzag));
    size += rows.back().size();
    if (again && !again->put(row, state_->zigzag)) again.reset();
  }
  if (size > UINT32_MAX)
    return Status(ErrorCode::kUnsupported, "[codec] the JPEG has more than 4 GiB of coefficients");
  if (again &&
      std::ranges::equal(again->take(), jpeg.subspan(scan->head_bytes, scan->tail_begin - scan->head_bytes)))
    return coef::build_record(frame, true, rows, jpeg.first(scan->head_bytes),
                              jpeg.subspan(scan->tail_begin));
  // A corrupt file may hold coefficients that can't be written as a JPEG, so it could never be exported.
  const std::vector<std::byte> metadata = coef::metadata_of(jpeg);
  const auto other = coef::write_jpeg(frame, blocks, metadata, 0);
  if (!other.ok()) return other.status();
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
                  "[codec] the coefficient record has more pixels than --max-pixels allows");
  Blocks blocks(record.frame);
  DLPIPE_RETURN_IF_ERROR(read_all(record, blocks));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> around,
                          coef::unpack_head(record.around, size_t{record.head_bytes} + record.tail_bytes));
  const Bytes head = Bytes(around).first(record.head_bytes);
  if (record.source_bytes) {
    const auto scan = coef::write_scan(record.frame, head, Blocks::source, &blocks);
    if (!scan)
      return Status(ErrorCode::kCorrupt,
                    "[codec] coefficient record: its JPEG head is corrupt; ingest the file again");
    std::vector<std::byte> jpeg(head.begin(), head.end());
    jpeg.insert(jpeg.end(), scan->begin(), scan->end());
    jpeg.insert(jpeg.end(), around.begin() + record.head_bytes, around.end());
    return jpeg;
  }
  return coef::write_jpeg(record.frame, blocks, head, 0);
}

bool begins_as_coefficients(Bytes bytes) {
  return coef::kMagic.starts_with(std::string_view(reinterpret_cast<const char*>(bytes.data()),
                                                   std::min(bytes.size(), coef::kMagic.size())));
}

Result<bool> keeps_source_bytes(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  return record.source_bytes;
}

}  // namespace dlpipe::data
