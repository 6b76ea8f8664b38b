#include "dlpipe/io/data/codec/coef/jpeg_coefficients.h"

// jpeglib.h needs stdio's FILE and size_t before it.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/coef/head.h"
#include "dlpipe/io/data/codec/coef/jpeg_scan.h"
#include "dlpipe/io/data/codec/coef/record.h"
#include "dlpipe/io/data/codec/coef/tile_reader.h"
#include "dlpipe/io/data/codec/probe.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;
using coef::ColorModel;
using coef::Frame;

/// libjpeg's error handling, for either direction. Frames between setjmp and libjpeg own nothing.
struct Call {
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  ErrorCode code = ErrorCode::kCorrupt;
  int max_scans = 0;

  [[noreturn]] void fail(ErrorCode why, const char* text) {
    code = why;
    std::snprintf(message.data(), message.size(), "%s", text);
    std::longjmp(on_error, 1);
  }
  Status status() const { return {code, concat("[codec] JPEG: ", message.data())}; }
};

void on_coefficient_error(j_common_ptr jpeg) {
  auto* call = static_cast<Call*>(jpeg->client_data);
  call->code = ErrorCode::kCorrupt;
  (*jpeg->err->format_message)(jpeg, call->message.data());
  std::longjmp(call->on_error, 1);
}
void on_coefficient_message(j_common_ptr jpeg, int level) {
  if (level < 0) on_coefficient_error(jpeg);
}
void on_coefficient_progress(j_common_ptr jpeg) {
  auto* call = static_cast<Call*>(jpeg->client_data);
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > call->max_scans)
    call->fail(ErrorCode::kUnsupported, "more progressive scans than the limit");
}

struct Reading : Call {
  jpeg_decompress_struct jpeg{};
  jvirt_barray_ptr* arrays = nullptr;

  explicit Reading(const DecodeLimits& limits) {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_coefficient_error;
    errors.emit_message = on_coefficient_message;
    jpeg.client_data = static_cast<Call*>(this);
    max_scans = limits.max_scans;
  }
  ~Reading() { jpeg_destroy_decompress(&jpeg); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// A row of a component's blocks.
  const JBLOCK* row(int component, int y) {
    return (*jpeg.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&jpeg), arrays[component],
                                           static_cast<JDIMENSION>(y), 1, FALSE)[0];
  }
};

bool read_coefficients(Reading& r, Bytes bytes, const DecodeLimits& limits) {
  if (setjmp(r.on_error) != 0) return false;
  jpeg_create_decompress(&r.jpeg);
  r.progress.progress_monitor = on_coefficient_progress;
  r.jpeg.progress = &r.progress;
  jpeg_mem_src(&r.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&r.jpeg, TRUE);
  if (int64_t{r.jpeg.image_width} * r.jpeg.image_height > limits.max_pixels)
    r.fail(ErrorCode::kUnsupported, "more pixels than the limit (--max-pixels)");
  if (int64_t{r.jpeg.image_width} * r.jpeg.image_height * 3 * int64_t{sizeof(JCOEF)} >
      limits.max_memory_bytes)
    r.fail(ErrorCode::kUnsupported, "its coefficients take more than the decoder's memory limit");
  r.arrays = jpeg_read_coefficients(&r.jpeg);
  return true;
}

// access_virt_barray may fail too.
bool copy_row(Reading& r, int component, int y, int blocks, int16_t* to) {
  if (setjmp(r.on_error) != 0) return false;
  std::memcpy(to, r.row(component, y), static_cast<size_t>(blocks) * sizeof(JBLOCK));
  return true;
}

Result<ColorModel> color_of(J_COLOR_SPACE space) {
  switch (space) {
    case JCS_GRAYSCALE:
      return ColorModel::kGrey;
    case JCS_YCbCr:
      return ColorModel::kYCbCr;
    case JCS_RGB:
      return ColorModel::kRgb;
    case JCS_CMYK:
      return ColorModel::kCmyk;
    case JCS_YCCK:
      return ColorModel::kYcck;
    default:
      return Status(ErrorCode::kUnsupported, "[codec] JPEG of unknown colours");
  }
}

Result<Frame> describe(const jpeg_decompress_struct& jpeg, Bytes bytes) {
  Frame frame;
  frame.width = static_cast<int>(jpeg.image_width);
  frame.height = static_cast<int>(jpeg.image_height);
  frame.components = jpeg.num_components;
  if (frame.components > coef::kMaxComponents)
    return Status(ErrorCode::kUnsupported, "[codec] JPEG of more than four components");
  DLPIPE_ASSIGN_OR_RETURN(frame.color, color_of(jpeg.jpeg_color_space));
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes));
  frame.orientation = info.orientation;
  for (int c = 0; c < frame.components; ++c) {
    const jpeg_component_info& from = jpeg.comp_info[c];
    coef::Component& to = frame.component[c];
    to.h = from.h_samp_factor;
    to.v = from.v_samp_factor;
    if (from.quant_table == nullptr)
      return Status(ErrorCode::kUnsupported, "[codec] JPEG without its tables");
    std::copy_n(from.quant_table->quantval, 64, to.quant.begin());
  }
  DLPIPE_RETURN_IF_ERROR(frame.set_geometry());
  return frame;
}

/// All coefficients of a picture, natural order, by component and block.
struct Blocks {
  std::array<std::vector<int16_t>, coef::kMaxComponents> of;
  std::array<int, coef::kMaxComponents> wide{};

  explicit Blocks(const Frame& frame) {
    for (int c = 0; c < frame.components; ++c) {
      wide[c] = frame.component[c].blocks_wide;
      of[c].resize(size_t{64} * static_cast<size_t>(wide[c]) *
                   static_cast<size_t>(frame.component[c].blocks_high));
    }
  }
  int16_t* at(int c, int x, int y) {
    return of[c].data() +
           size_t{64} * (static_cast<size_t>(y) * static_cast<size_t>(wide[c]) + static_cast<size_t>(x));
  }
  static const int16_t* source(void* self, int c, int x, int y) {
    return static_cast<Blocks*>(self)->at(c, x, y);
  }
};

std::vector<std::byte> encode_row(const Frame& frame, int row, Blocks& blocks) {
  std::vector<std::byte> lengths;
  std::vector<std::byte> tiles;
  coef::BitWriter bits;
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& component = frame.component[c];
    for (int y = row * component.v; y < row * component.v + frame.block_rows(c, row); ++y) {
      for (int first = 0; first < component.blocks_wide; first += coef::kTileBlocks) {
        coef::TileWriter writer(c == 0 ? 0 : 1, bits);
        const int end = std::min(first + coef::kTileBlocks, component.blocks_wide);
        for (int x = first; x < end; ++x) writer.add(blocks.at(c, x, y));
        const std::vector<std::byte> tile = bits.take();
        coef::put_length(tile.size(), lengths);
        tiles.insert(tiles.end(), tile.begin(), tile.end());
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

/// The segments that describe a picture and no coding of it: APPn and comments, with their markers.
std::vector<std::byte> metadata_of(Bytes jpeg) {
  std::vector<std::byte> kept;
  size_t at = 2;
  while (at + 4 <= jpeg.size() && jpeg[at] == std::byte{0xff}) {
    const auto marker = static_cast<unsigned>(jpeg[at + 1]);
    const size_t length = static_cast<size_t>(jpeg[at + 2]) << 8 | static_cast<size_t>(jpeg[at + 3]);
    if (marker == 0xda || length < 2 || length > jpeg.size() - at - 2) break;
    if ((marker >= 0xe0 && marker <= 0xef) || marker == 0xfe)
      kept.insert(kept.end(), jpeg.begin() + static_cast<ptrdiff_t>(at),
                  jpeg.begin() + static_cast<ptrdiff_t>(at + 2 + length));
    at += 2 + length;
  }
  return kept;
}

}  // namespace

Result<std::vector<std::byte>> encode_coefficients(Bytes jpeg, const DecodeLimits& limits) {
  const auto reading = std::make_unique<Reading>(limits);
  if (!read_coefficients(*reading, jpeg, limits)) return reading->status();
  DLPIPE_ASSIGN_OR_RETURN(const Frame frame, describe(reading->jpeg, jpeg));
  Blocks blocks(frame);
  for (int c = 0; c < frame.components; ++c) {
    for (int y = 0; y < frame.component[c].blocks_high; ++y) {
      if (!copy_row(*reading, c, y, frame.component[c].blocks_wide, blocks.at(c, 0, y)))
        return reading->status();
    }
  }
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
  return coef::build_record(frame, false, rows, metadata_of(jpeg), {});
}

namespace {

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
      const coef::Tile coded{padded.data(), tile.bytes.size(), tile.component == 0 ? 0 : 1, tile.blocks,
                             true};
      if (!coef::read_tile(coded, *tile_blocks)) return damaged();
      for (int i = 0; i < tile.blocks; ++i)
        coef::natural_coefficients(*tile_blocks, i,
                                   blocks.at(tile.component, tile.first_block + i, tile.block_row));
    }
    if (!tiles.complete()) return damaged();
  }
  return {};
}

struct Writing : Call {
  jpeg_compress_struct jpeg{};
  std::array<jvirt_barray_ptr, coef::kMaxComponents> arrays{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type

  Writing() {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_coefficient_error;
    errors.emit_message = on_coefficient_message;
    jpeg.client_data = static_cast<Call*>(this);
  }
  ~Writing() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);  // NOLINT: libjpeg's malloc
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

J_COLOR_SPACE space_of(ColorModel color) {
  constexpr std::array<J_COLOR_SPACE, 5> kSpaces = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK};
  return kSpaces[static_cast<size_t>(color)];
}

void set_frame(Writing& w, const Frame& frame) {
  jpeg_compress_struct& jpeg = w.jpeg;
  jpeg.image_width = static_cast<JDIMENSION>(frame.width);
  jpeg.image_height = static_cast<JDIMENSION>(frame.height);
  jpeg.input_components = frame.components;
  jpeg.in_color_space = space_of(frame.color);
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, space_of(frame.color));
  jpeg.optimize_coding = TRUE;
  jpeg.write_JFIF_header = FALSE;  // the source's own segments are written instead
  jpeg.write_Adobe_marker = FALSE;
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& from = frame.component[c];
    jpeg_component_info& to = jpeg.comp_info[c];
    to.h_samp_factor = from.h;
    to.v_samp_factor = from.v;
    to.quant_tbl_no = c;
    if (jpeg.quant_tbl_ptrs[c] == nullptr)
      jpeg.quant_tbl_ptrs[c] = jpeg_alloc_quant_table(reinterpret_cast<j_common_ptr>(&jpeg));
    std::copy_n(from.quant.begin(), 64, jpeg.quant_tbl_ptrs[c]->quantval);
    jpeg.quant_tbl_ptrs[c]->sent_table = FALSE;
  }
}

JDIMENSION rounded_up(int value, int to) {
  return static_cast<JDIMENSION>((value + to - 1) / to * to);
}

void write_segments(Writing& w, Bytes segments) {
  for (size_t at = 0; at + 4 <= segments.size();) {
    const size_t length = static_cast<size_t>(segments[at + 2]) << 8 | static_cast<size_t>(segments[at + 3]);
    if (length < 2 || length > segments.size() - at - 2) return;
    jpeg_write_marker(&w.jpeg, static_cast<int>(segments[at + 1]),
                      reinterpret_cast<const JOCTET*>(segments.data() + at + 4),
                      static_cast<unsigned>(length - 2));
    at += 2 + length;
  }
}

bool write_guarded(Writing& w, const Frame& frame, Blocks& blocks, Bytes segments) {
  if (setjmp(w.on_error) != 0) return false;
  jpeg_create_compress(&w.jpeg);
  jpeg_mem_dest(&w.jpeg, &w.bytes, &w.size);
  set_frame(w, frame);
  auto* const common = reinterpret_cast<j_common_ptr>(&w.jpeg);
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& one = frame.component[c];
    w.arrays[c] = (*w.jpeg.mem->request_virt_barray)(
        common, JPOOL_IMAGE, TRUE, rounded_up(one.blocks_wide, one.h), rounded_up(one.blocks_high, one.v),
        static_cast<JDIMENSION>(one.v));
  }
  jpeg_write_coefficients(&w.jpeg, w.arrays.data());
  for (int c = 0; c < frame.components; ++c) {
    const coef::Component& one = frame.component[c];
    for (int y = 0; y < one.blocks_high; ++y) {
      JBLOCKARRAY row =
          (*w.jpeg.mem->access_virt_barray)(common, w.arrays[c], static_cast<JDIMENSION>(y), 1, TRUE);
      std::memcpy(row[0], blocks.at(c, 0, y), static_cast<size_t>(one.blocks_wide) * sizeof(JBLOCK));
    }
  }
  write_segments(w, segments);
  jpeg_finish_compress(&w.jpeg);
  return true;
}

}  // namespace

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
  const auto writing = std::make_unique<Writing>();
  if (!write_guarded(*writing, record.frame, blocks, head)) return writing->status();
  const auto* first = reinterpret_cast<const std::byte*>(writing->bytes);
  return std::vector<std::byte>(first, first + writing->size);
}

Result<bool> keeps_source_bytes(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  return record.source_bytes;
}

}  // namespace dlpipe::data
