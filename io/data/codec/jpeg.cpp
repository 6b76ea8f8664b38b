#include "io/data/codec/jpeg.h"

// jpeglib.h needs stdio's FILE and size_t before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/pixels.h"

namespace dlpipe::data {

bool JpegSegments::next(Segment* segment) {
  while (!done_) {
    size_t at = at_;
    while (at < bytes_.size() && load_u8(bytes_, at) != 0xff) ++at;
    while (at < bytes_.size() && load_u8(bytes_, at) == 0xff) ++at;
    if (at >= bytes_.size()) break;
    const uint32_t marker = load_u8(bytes_, at++);
    if (marker == 0 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {  // no length follows
      at_ = at;
      continue;
    }
    if (marker == 0xd9) break;
    const size_t left = bytes_.size() - at;
    const size_t length = left < 2 ? 0 : load_be16(bytes_, at);
    if (length < 2 || length > left) {
      cut_short_ = true;
      break;
    }
    *segment = {marker, at - 2, at + length, bytes_.subspan(at + 2, length - 2), at - 2 == at_};
    at_ = segment->end;
    done_ = marker == kStartOfScan;
    return true;
  }
  done_ = true;
  return false;
}

bool keeps_pixels(int libjpeg_message_code) {
  return libjpeg_message_code == JWRN_JFIF_MAJOR || libjpeg_message_code == JWRN_ADOBE_XFORM ||
         libjpeg_message_code == JWRN_NOT_SEQUENTIAL || libjpeg_message_code == JWRN_EXTRANEOUS_DATA;
}

namespace {
// Columns and rows that are decoded around a region and discarded: fancy upsampling reads neighbours, and
// libjpeg treats the first and last column of a cropped image as the image's edge. 2 suffices. Without a
// margin, about one crop in ten differs from the full decode.
constexpr int kMargin = 2;

// Memory of one image's tables.
struct TableMemory {
  alignas(32) std::array<std::byte, 4096> bytes;  // four quantisation and eight Huffman tables take 2.8 KB
  size_t used = 0;
};
}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf on_error{};
  TableMemory tables;
  void* (*alloc_small)(j_common_ptr, int, size_t) = nullptr;  // libjpeg's own
  DecodeLimits limits;
  std::vector<uint8_t> row;  // one scanline of the cropped image

  // The call in progress.
  std::span<const std::byte> bytes;
  Region region;
  ImageView out;
  ErrorCode code = ErrorCode::kCorrupt;
  std::array<char, JMSG_LENGTH_MAX> message{};

  // Leaves the decode. Frames between here and setjmp hold nothing that needs a destructor.
  [[noreturn]] void fail(ErrorCode why, const char* text) {
    code = why;
    std::snprintf(message.data(), message.size(), "%s", text);
    std::longjmp(on_error, 1);
  }
};

namespace {

JpegDecoder::State* state_of(j_common_ptr jpeg) {
  return static_cast<JpegDecoder::State*>(jpeg->client_data);
}

void on_libjpeg_error(j_common_ptr jpeg) {
  JpegDecoder::State* state = state_of(jpeg);
  state->code = ErrorCode::kCorrupt;
  (*jpeg->err->format_message)(jpeg, state->message.data());
  std::longjmp(state->on_error, 1);
}

// Level -1 is a warning. After most warnings, libjpeg would continue with invented pixels.
void on_libjpeg_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !keeps_pixels(jpeg->err->msg_code)) on_libjpeg_error(jpeg);
}

void on_libjpeg_progress(j_common_ptr jpeg) {
  JpegDecoder::State* state = state_of(jpeg);
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > state->limits.max_scans)
    state->fail(ErrorCode::kUnsupported, "it has too many progressive scans; save it as a baseline JPEG");
}

// Once an image has begun, tables are the only memory that libjpeg requests for longer than the image.
void* alloc_small_or_table(j_common_ptr jpeg, int pool, size_t size) {
  JpegDecoder::State& s = *state_of(jpeg);
  constexpr size_t kAlignment = alignof(TableMemory);
  const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (pool != JPOOL_PERMANENT || rounded > s.tables.bytes.size() - s.tables.used)
    return s.alloc_small(jpeg, pool, size);
  void* const memory = s.tables.bytes.data() + s.tables.used;
  s.tables.used += rounded;
  return memory;
}

// For a file without tables, libjpeg would use those of the previous image.
void forget_tables(JpegDecoder::State& s) {
  for (JQUANT_TBL*& table : s.jpeg.quant_tbl_ptrs) table = nullptr;
  for (JHUFF_TBL*& table : s.jpeg.dc_huff_tbl_ptrs) table = nullptr;
  for (JHUFF_TBL*& table : s.jpeg.ac_huff_tbl_ptrs) table = nullptr;
  s.tables.used = 0;
}

void create(JpegDecoder::State& s) {
  s.jpeg.err = jpeg_std_error(&s.errors);
  s.errors.error_exit = on_libjpeg_error;
  s.errors.emit_message = on_libjpeg_message;
  s.jpeg.client_data = &s;
  if (setjmp(s.on_error) != 0) return;  // out of memory: decode() reports that the object is missing
  jpeg_create_decompress(&s.jpeg);
  s.progress.progress_monitor = on_libjpeg_progress;
  s.jpeg.progress = &s.progress;
  constexpr unsigned char kNothing = 0;
  jpeg_mem_src(&s.jpeg, &kNothing, 1);  // makes the source object, which lasts as long as the decoder
  s.alloc_small = s.jpeg.mem->alloc_small;
  s.jpeg.mem->alloc_small = alloc_small_or_table;
  // libjpeg's own limit for its whole-image arrays, in addition to check_memory.
  s.jpeg.mem->max_memory_to_use = static_cast<long>(s.limits.max_memory_bytes);  // NOLINT: libjpeg's type
}

// For a file with several scans, libjpeg keeps all coefficients in memory. Its other memory is small.
void check_memory(JpegDecoder::State& s) {
  if (!jpeg_has_multiple_scans(&s.jpeg)) return;
  int64_t coefficients_bytes = 0;
  for (int c = 0; c < s.jpeg.num_components; ++c) {
    const jpeg_component_info& component = s.jpeg.comp_info[c];
    coefficients_bytes +=
        int64_t{component.width_in_blocks} * component.height_in_blocks * int64_t{sizeof(JBLOCK)};
  }
  if (coefficients_bytes > s.limits.max_memory_bytes)
    s.fail(ErrorCode::kUnsupported,
           "its coefficients exceed the decoder's memory limit; save it as a baseline JPEG");
}

void start(JpegDecoder::State& s) {
  jpeg_decompress_struct& jpeg = s.jpeg;
  forget_tables(s);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(s.bytes.data()), s.bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  if (int64_t{jpeg.image_width} * jpeg.image_height > s.limits.max_pixels)
    s.fail(ErrorCode::kUnsupported, "it has more pixels than --max-pixels allows");
  if (int64_t{s.region.x} + s.region.width > jpeg.image_width ||
      int64_t{s.region.y} + s.region.height > jpeg.image_height)
    s.fail(ErrorCode::kMisuse, "the region is outside the image");
  check_memory(s);
  if (jpeg.num_components == 4) {
    jpeg.out_color_space = JCS_CMYK;
  } else if (jpeg.num_components == 3) {
    jpeg.out_color_space = JCS_RGB;
  } else if (jpeg.num_components == 1) {
    jpeg.out_color_space = s.out.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  } else {
    s.fail(ErrorCode::kUnsupported, "it does not have 1, 3 or 4 components; convert it to RGB");
  }
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&jpeg);
}

// Trims one decoded row to the region and puts it into `out`.
void store_row(JpegDecoder::State& s, int skip_columns, int y) {
  const int components = s.jpeg.output_components;
  uint8_t* from = s.row.data() + static_cast<ptrdiff_t>(skip_columns) * components;
  if (components == 4) {
    if (s.out.channels == 3) {
      inverted_cmyk_to_rgb_row(from, s.out.row(y), s.region.width);
      return;
    }
    inverted_cmyk_to_rgb_row(from, from, s.region.width);
    convert_row(from, 3, s.out.row(y), s.out.channels, s.region.width);
    return;
  }
  convert_row(from, components, s.out.row(y), s.out.channels, s.region.width);
}

// libjpeg smooths blocks with missing bits, using neighbouring blocks that a crop does not have.
bool may_smooth(const jpeg_decompress_struct& jpeg) {
  if (!jpeg.progressive_mode || jpeg.coef_bits == nullptr) return false;
  for (int c = 0; c < jpeg.num_components; ++c) {
    if (std::any_of(jpeg.coef_bits[c], jpeg.coef_bits[c] + DCTSIZE2, [](int bits) { return bits != 0; }))
      return true;
  }
  return false;
}

void read_rows(JpegDecoder::State& s) {
  jpeg_decompress_struct& jpeg = s.jpeg;
  const int image_width = static_cast<int>(jpeg.output_width);
  const int left = std::max(0, s.region.x - kMargin);
  const int right = std::min(image_width, s.region.x + s.region.width + kMargin);
  JDIMENSION first_column = 0;
  if ((left > 0 || right < image_width) && !may_smooth(jpeg)) {
    first_column = static_cast<JDIMENSION>(left);
    JDIMENSION columns = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&jpeg, &first_column, &columns);  // rounds to whole MCUs
  }
  const int skip_columns = s.region.x - static_cast<int>(first_column);
  if (const int top = std::max(0, s.region.y - kMargin); top > 0)
    jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(top));

  s.row.resize(size_t{jpeg.output_width} * jpeg.output_components);
  const bool direct =
      jpeg.output_components == s.out.channels && static_cast<int>(jpeg.output_width) == s.region.width;
  const int end = s.region.y + s.region.height;
  while (static_cast<int>(jpeg.output_scanline) < end) {
    const int y = static_cast<int>(jpeg.output_scanline) - s.region.y;
    const bool wanted = y >= 0;
    JSAMPROW row = direct && wanted ? s.out.row(y) : s.row.data();
    jpeg_read_scanlines(&jpeg, &row, 1);
    if (wanted && !direct) store_row(s, skip_columns, y);
  }
  // Reading to the end of the file detects whether it is truncated or has superfluous bytes.
  if (end == static_cast<int>(jpeg.output_height)) {
    jpeg_finish_decompress(&jpeg);
  } else {
    jpeg_abort_decompress(&jpeg);
  }
}

// The one frame that longjmp returns to; it holds no object with a destructor.
bool decode_guarded(JpegDecoder::State& s) {
  if (setjmp(s.on_error) != 0) return false;
  start(s);
  read_rows(s);
  return true;
}

}  // namespace

JpegDecoder::JpegDecoder(const DecodeLimits& limits) : state_(std::make_unique<State>()) {
  state_->limits = limits;
  create(*state_);
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->jpeg);
}

Status JpegDecoder::decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  State& s = *state_;
  if (s.jpeg.mem == nullptr) return Status(ErrorCode::kOutOfMemory, "[codec] no memory for a JPEG decoder");
  s.bytes = bytes;
  s.region = region;
  s.out = out;
  bool decoded = false;
  try {
    decoded = decode_guarded(s);
  } catch (...) {
    jpeg_abort_decompress(&s.jpeg);
    return status_from_current_exception("codec");
  }
  if (decoded) return {};
  jpeg_abort_decompress(&s.jpeg);
  const char* const kind = s.code == ErrorCode::kCorrupt ? "corrupt JPEG: " : "JPEG: ";
  return Status(s.code, concat("[codec] ", kind, s.message.data()));
}

size_t JpegDecoder::scratch_bytes() const {
  return state_->row.capacity();
}

namespace {

struct JpegEncoding {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  unsigned char* bytes = nullptr;  // malloc'ed by libjpeg
  unsigned long size = 0;          // NOLINT: libjpeg's type
};

void on_encode_error(j_common_ptr jpeg) {
  auto* encoding = static_cast<JpegEncoding*>(jpeg->client_data);
  (*jpeg->err->format_message)(jpeg, encoding->message.data());
  std::longjmp(encoding->on_error, 1);
}

// Holds no object with a destructor: longjmp returns here.
bool encode_guarded(JpegEncoding& e, const ConstImageView& image, int quality, bool subsample) {
  if (setjmp(e.on_error) != 0) return false;
  jpeg_create_compress(&e.jpeg);
  jpeg_mem_dest(&e.jpeg, &e.bytes, &e.size);
  e.jpeg.image_width = static_cast<JDIMENSION>(image.width);
  e.jpeg.image_height = static_cast<JDIMENSION>(image.height);
  e.jpeg.input_components = image.channels;
  e.jpeg.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&e.jpeg);
  jpeg_set_quality(&e.jpeg, quality, TRUE);
  e.jpeg.dct_method = JDCT_ISLOW;
  if (image.channels == 3) {
    e.jpeg.comp_info[0].h_samp_factor = subsample ? 2 : 1;
    e.jpeg.comp_info[0].v_samp_factor = subsample ? 2 : 1;
  }
  jpeg_start_compress(&e.jpeg, TRUE);
  while (e.jpeg.next_scanline < e.jpeg.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(e.jpeg.next_scanline)));
    jpeg_write_scanlines(&e.jpeg, &row, 1);
  }
  jpeg_finish_compress(&e.jpeg);
  return true;
}

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(const ConstImageView& image, int quality, bool subsample) {
  DLPIPE_RETURN_IF_ERROR(check_encodable(image));
  if (quality < 1 || quality > 100) return misuse("codec", "JPEG quality ", quality, "; use 1 to 100");
  JpegEncoding encoding;
  encoding.jpeg.err = jpeg_std_error(&encoding.errors);
  encoding.errors.error_exit = on_encode_error;
  encoding.jpeg.client_data = &encoding;
  const bool encoded = encode_guarded(encoding, image, quality, subsample);
  std::vector<std::byte> bytes;
  if (encoded) {
    const auto* first = reinterpret_cast<const std::byte*>(encoding.bytes);
    bytes.assign(first, first + encoding.size);
  }
  jpeg_destroy_compress(&encoding.jpeg);
  std::free(encoding.bytes);  // NOLINT: libjpeg's malloc
  if (!encoded)
    return Status(ErrorCode::kUnsupported, concat("[codec] JPEG encoder: ", encoding.message.data()));
  return bytes;
}

}  // namespace dlpipe::data
