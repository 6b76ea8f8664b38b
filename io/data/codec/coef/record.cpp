#include "io/data/codec/coef/record.h"

// jpeglib.h needs stdio's FILE and size_t to be declared before it.
#include <cstdio>

#include <jpeglib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/bytes.h"
#include "base/text.h"
#include "io/data/codec/zstd.h"

namespace dlpipe::data::coef {
namespace {

constexpr size_t kFixedBytes = 24;
constexpr int kMaxSide = 65535;
// Bits of the flags.
constexpr unsigned kSourceBytes = 1;
constexpr unsigned kTileShift = 1;  // two bits: how often the tiles' 16 blocks are halved
constexpr unsigned kTileMask = 3;
constexpr unsigned kMaxHalvings = 2;
constexpr unsigned kPacked = 8;
constexpr std::array<int, 5> kComponentsOf = {1, 3, 3, 4, 4};  // by ColorModel

Status corrupt(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] coefficient record: ", what, "; ingest the file again"));
}

void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
// Tables are in zigzag order, with one byte per value if all values fit.
void put_table(const std::array<uint16_t, 64>& quant, std::vector<std::byte>& out) {
  const bool wide = *std::max_element(quant.begin(), quant.end()) > 255;
  append_le<uint8_t>(out, wide ? 16 : 8);
  for (const uint8_t natural : kZigzag) {
    if (wide) {
      append_le<uint16_t>(out, quant[natural]);
    } else {
      append_le(out, static_cast<uint8_t>(quant[natural]));
    }
  }
}

/// Reads one after another and remembers whether anything was missing.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    const std::span<const std::byte> part = take(sizeof(T));
    return part.empty() ? T{} : load_le<T>(part, 0);
  }
  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      complete_ = false;
      return {};
    }
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  bool complete() const { return complete_; }
  size_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool complete_ = true;
};

bool read_table(Cursor& cursor, std::array<uint16_t, 64>& quant) {
  const auto bits = cursor.get<uint8_t>();
  if (bits != 8 && bits != 16) return false;
  for (const uint8_t natural : kZigzag)
    quant[natural] = bits == 8 ? cursor.get<uint8_t>() : cursor.get<uint16_t>();
  return cursor.complete();
}

struct Sizes {
  uint32_t head = 0;
  uint32_t tail = 0;
  uint8_t flags = 0;
};

Result<Frame> read_frame(Cursor& cursor, Sizes* sizes) {
  const std::span<const std::byte> magic = cursor.take(kMagic.size());
  if (magic.empty() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    return corrupt("it does not begin with 'dlc1'");
  Frame frame;
  frame.width = cursor.get<uint16_t>();
  frame.height = cursor.get<uint16_t>();
  const auto color = cursor.get<uint8_t>();
  frame.components = cursor.get<uint8_t>();
  frame.orientation = cursor.get<uint8_t>();
  sizes->flags = cursor.get<uint8_t>();
  sizes->head = cursor.get<uint32_t>();
  sizes->tail = cursor.get<uint32_t>();
  const auto tables = cursor.get<uint32_t>();
  if (!cursor.complete()) return corrupt("it is truncated");
  if (color >= kComponentsOf.size() || frame.components != kComponentsOf[color])
    return corrupt("its colours don't match its components");
  if (frame.orientation < 1 || frame.orientation > 8) return corrupt("its orientation is not 1 to 8");
  if (tables < 1 || tables > kMaxComponents) return corrupt("it has a wrong number of tables");
  const unsigned halvings = sizes->flags >> kTileShift & kTileMask;
  if (sizes->flags >= 2 * kPacked || halvings > kMaxHalvings)
    return Status(
        ErrorCode::kUnsupported,
        "[codec] the coefficient record has a newer format; use the dlpipe that wrote it, or a later one");
  frame.tile_blocks = kMaxTileBlocks >> halvings;
  frame.tile_form = (sizes->flags & kPacked) != 0 ? TileForm::kPacked : TileForm::kCoded;
  frame.color = static_cast<ColorModel>(color);
  std::array<uint8_t, kMaxComponents> table_of{};
  for (int c = 0; c < frame.components; ++c) {
    const auto factors = cursor.get<uint8_t>();
    frame.component[c].h = factors >> 4;
    frame.component[c].v = factors & 15;
    table_of[c] = cursor.get<uint8_t>();
    if (table_of[c] >= tables) return corrupt("a component has no table");
  }
  std::array<std::array<uint16_t, 64>, kMaxComponents> quant{};
  for (uint32_t i = 0; i < tables; ++i) {
    if (!read_table(cursor, quant[i])) return corrupt("a quantisation table is corrupt");
  }
  for (int c = 0; c < frame.components; ++c) frame.component[c].quant = quant[table_of[c]];
  DLPIPE_RETURN_IF_ERROR(frame.set_geometry());
  return frame;
}

}  // namespace

Status Frame::set_geometry() {
  if (width < 1 || height < 1 || width > kMaxSide || height > kMaxSide)
    return corrupt("its width or height is 0");
  max_h = max_v = 1;
  for (int c = 0; c < components; ++c) {
    max_h = std::max(max_h, component[c].h);
    max_v = std::max(max_v, component[c].v);
  }
  for (int c = 0; c < components; ++c) {
    Component& one = component[c];
    if (one.h < 1 || one.v < 1 || max_h > 4 || max_v > 4 || max_h % one.h != 0 || max_v % one.v != 0)
      return Status(ErrorCode::kUnsupported, "[codec] JPEG with fractional sampling");
    one.width = divide_up(int64_t{width} * one.h, max_h);
    one.height = divide_up(int64_t{height} * one.v, max_v);
    one.blocks_wide = divide_up(one.width, 8);
    one.blocks_high = divide_up(one.height, 8);
  }
  mcu_rows = divide_up(height, 8 * max_v);
  return {};
}

int Frame::block_rows(int c, int row) const {
  const Component& one = component[c];
  return std::clamp(one.blocks_high - row * one.v, 0, one.v);
}

Result<std::span<const std::byte>> Record::row(int row) const {
  const size_t begin =
      row == 0 ? 0 : load_le<uint32_t>(row_ends, sizeof(uint32_t) * static_cast<size_t>(row - 1));
  const size_t end = load_le<uint32_t>(row_ends, sizeof(uint32_t) * static_cast<size_t>(row));
  if (begin > end || end > data.size()) return corrupt("its table of rows is inconsistent");
  return data.subspan(begin, end - begin);
}

Result<Record> parse_record(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  Sizes sizes;
  Record record;
  DLPIPE_ASSIGN_OR_RETURN(record.frame, read_frame(cursor, &sizes));
  record.source_bytes = (sizes.flags & kSourceBytes) != 0;
  record.row_ends = cursor.take(sizeof(uint32_t) * static_cast<size_t>(record.frame.mcu_rows));
  if (!cursor.complete()) return corrupt("it is truncated");
  record.data = cursor.take(load_le<uint32_t>(record.row_ends, record.row_ends.size() - sizeof(uint32_t)));
  record.around = cursor.take(cursor.left());
  record.head_bytes = sizes.head;
  record.tail_bytes = sizes.tail;
  if (!cursor.complete()) return corrupt("it is truncated");
  // A tile takes at least two bytes: sizes that the data can't fill are rejected.
  int64_t tiles = 0;
  for (int c = 0; c < record.frame.components; ++c)
    tiles += int64_t{record.frame.component[c].blocks_high} * record.frame.tiles(c);
  if (2 * tiles > static_cast<int64_t>(record.data.size()))
    return corrupt("it is too short for its size in pixels");
  return record;
}

Result<Frame> parse_frame(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  Sizes sizes;
  return read_frame(cursor, &sizes);
}

RowTiles::RowTiles(const Frame& frame, int row, std::span<const std::byte> bytes)
    : frame_(frame), row_(row), bytes_(bytes) {
  for (int c = 0; c < frame.components; ++c) left_ += int64_t{frame.block_rows(c, row)} * frame.tiles(c);
  for (int64_t i = 0; i < left_ && !damaged_; ++i) {
    uint32_t length = 0;
    damaged_ = !read_length(bytes, &at_, &length);
  }
  enter(0);
}

void RowTiles::enter(int component) {
  const Component& one = frame_.component[component];
  place_.component = component;
  place_.block_row = row_ * one.v;
  end_row_ = place_.block_row + frame_.block_rows(component, row_);
  blocks_wide_ = one.blocks_wide;
}

std::vector<std::byte> build_record(const Frame& frame, bool source_bytes,
                                    const std::vector<std::vector<std::byte>>& rows,
                                    std::span<const std::byte> head, std::span<const std::byte> tail) {
  std::vector<std::byte> out;
  put_bytes(out, std::as_bytes(std::span(kMagic)));
  append_le(out, static_cast<uint16_t>(frame.width));
  append_le(out, static_cast<uint16_t>(frame.height));
  append_le(out, static_cast<uint8_t>(frame.color));
  append_le(out, static_cast<uint8_t>(frame.components));
  append_le(out, static_cast<uint8_t>(frame.orientation));
  unsigned flags = (source_bytes ? kSourceBytes : 0) | (frame.tile_form == TileForm::kPacked ? kPacked : 0);
  for (int blocks = kMaxTileBlocks; blocks > frame.tile_blocks; blocks /= 2) flags += 1u << kTileShift;
  append_le(out, static_cast<uint8_t>(flags));
  append_le(out, static_cast<uint32_t>(head.size()));
  append_le(out, static_cast<uint32_t>(tail.size()));
  std::vector<const std::array<uint16_t, 64>*> tables;
  std::vector<uint8_t> table_of;
  for (int c = 0; c < frame.components; ++c) {
    const auto& quant = frame.component[c].quant;
    const auto known =
        std::find_if(tables.begin(), tables.end(), [&](const auto* other) { return *other == quant; });
    table_of.push_back(static_cast<uint8_t>(known - tables.begin()));
    if (known == tables.end()) tables.push_back(&quant);
  }
  append_le(out, static_cast<uint32_t>(tables.size()));
  static_assert(kFixedBytes == kMagic.size() + 2 * 2 + 4 + 3 * 4);
  for (int c = 0; c < frame.components; ++c) {
    append_le(out, static_cast<uint8_t>(frame.component[c].h << 4 | frame.component[c].v));
    append_le(out, table_of[c]);
  }
  for (const auto* table : tables) put_table(*table, out);
  uint32_t end = 0;
  for (const auto& row : rows) append_le(out, end += static_cast<uint32_t>(row.size()));
  for (const auto& row : rows) put_bytes(out, row);
  std::vector<std::byte> around(head.begin(), head.end());
  put_bytes(around, tail);
  put_bytes(out, pack_head(around));
  return out;
}

void put_length(uint64_t length, std::vector<std::byte>& out) {
  for (; length >= 128; length >>= 7) out.push_back(static_cast<std::byte>(length | 128));
  out.push_back(static_cast<std::byte>(length));
}

namespace {

constexpr int kHeadLevel = 6;  // for a few hundred bytes; higher levels cost milliseconds

void put_huffman_table(const JHUFF_TBL& table, int place, std::vector<std::byte>& out) {
  size_t values = 0;
  for (int length = 1; length <= 16; ++length) values += table.bits[length];
  const size_t size = 2 + 1 + 16 + values;
  for (const size_t byte : {size_t{0xff}, size_t{0xc4}, size >> 8, size & 255, static_cast<size_t>(place)})
    out.push_back(static_cast<std::byte>(byte));
  for (int length = 1; length <= 16; ++length) out.push_back(static_cast<std::byte>(table.bits[length]));
  for (size_t i = 0; i < values; ++i) out.push_back(static_cast<std::byte>(table.huffval[i]));
}

/// The four standard tables as libjpeg writes them, one segment each.
std::vector<std::byte> make_dictionary() {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);  // only a lack of memory makes these calls fail
  jpeg_create_compress(&jpeg);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  std::vector<std::byte> out;
  for (int i = 0; i < 2; ++i) {
    put_huffman_table(*jpeg.dc_huff_tbl_ptrs[i], i, out);
    put_huffman_table(*jpeg.ac_huff_tbl_ptrs[i], 16 + i, out);
  }
  jpeg_destroy_compress(&jpeg);
  return out;
}

const std::vector<std::byte>& dictionary() {
  static const std::vector<std::byte> bytes = make_dictionary();
  return bytes;
}

}  // namespace

std::vector<std::byte> pack_head(std::span<const std::byte> bytes) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kHeadLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_refPrefix(context.get(), dictionary().data(), dictionary().size());
  const size_t size = ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // `out` is large enough
  out.resize(size);
  return out;
}

Result<std::vector<std::byte>> unpack_head(std::span<const std::byte> packed, size_t size) {
  const Status damaged(ErrorCode::kCorrupt,
                       "[codec] coefficient record: its JPEG head is corrupt; ingest the file again");
  if (size > kMostHeadBytes || !zstd_can_hold(packed.size(), size)) return damaged;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::vector<std::byte> out(size);
  ZSTD_DCtx_refPrefix(context.get(), dictionary().data(), dictionary().size());
  const size_t got = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0 || got != size) return damaged;
  return out;
}

RegionBlocks region_blocks(const Frame& frame, int c, const Region& region) {
  const Component& component = frame.component[c];
  RegionBlocks blocks;
  blocks.fx = frame.max_h / component.h;
  blocks.fy = frame.max_v / component.v;
  blocks.upsampling = upsampling_of(component.width, blocks.fx, blocks.fy);
  const int around_x = blocks.fx > 1 ? 1 : 0;
  const int around_y = blocks.fy > 1 ? 1 : 0;
  const int left = std::max(0, region.x / blocks.fx - around_x);
  const int right = std::min(component.width, divide_up(region.x + region.width, blocks.fx) + around_x);
  const int top = std::max(0, region.y / blocks.fy - around_y);
  const int bottom = std::min(component.height, divide_up(region.y + region.height, blocks.fy) + around_y);
  blocks.first_block = left / 8;
  blocks.end_block = divide_up(right, 8);
  blocks.first_row = top / 8;
  blocks.end_row = divide_up(bottom, 8);
  return blocks;
}

RowRange region_rows(const Frame& frame, const Region& region) {
  RowRange rows{frame.mcu_rows, 0};
  for (int c = 0; c < frame.components; ++c) {
    const RegionBlocks blocks = region_blocks(frame, c, region);
    rows.first = std::min(rows.first, blocks.first_row / frame.component[c].v);
    rows.end = std::max(rows.end, divide_up(blocks.end_row, frame.component[c].v));
  }
  return rows;
}

}  // namespace dlpipe::data::coef
