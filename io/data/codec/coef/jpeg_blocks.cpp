#include "io/data/codec/coef/jpeg_blocks.h"

// jpeglib.h needs stdio's FILE and size_t to be declared before it.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "io/data/codec/jpeg.h"

namespace dlpipe::data::coef {
namespace {

using Bytes = std::span<const std::byte>;

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
  if (level < 0 && !keeps_pixels(jpeg->err->msg_code)) on_coefficient_error(jpeg);
}
void on_coefficient_progress(j_common_ptr jpeg) {
  auto* call = static_cast<Call*>(jpeg->client_data);
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > call->max_scans)
    call->fail(ErrorCode::kUnsupported, "it has too many progressive scans; save it as a baseline JPEG");
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

// Uses libjpeg's buffered-image mode, which keeps all coefficients and can output images from them: JpegDecoder's pixels.
void show_pixels(Reading& r, const ImageView& pixels) {
  jpeg_decompress_struct& jpeg = r.jpeg;
  if (jpeg.num_components != pixels.channels || (pixels.channels != 1 && pixels.channels != 3) ||
      static_cast<int>(jpeg.image_width) != pixels.width ||
      static_cast<int>(jpeg.image_height) != pixels.height)
    r.fail(ErrorCode::kUnsupported, "its pixel format is not supported");
  jpeg.buffered_image = TRUE;
  jpeg.out_color_space = pixels.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&jpeg);
  while (!jpeg_input_complete(&jpeg)) {
    jpeg_consume_input(&jpeg);
    on_coefficient_progress(
        reinterpret_cast<j_common_ptr>(&jpeg));  // libjpeg does not call it while it only consumes
  }
  jpeg_start_output(&jpeg, jpeg.input_scan_number);
  for (int y = 0; y < pixels.height; ++y) {
    JSAMPROW row = pixels.row(y);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_output(&jpeg);
}

bool read_coefficients(Reading& r, Bytes bytes, const DecodeLimits& limits, const ImageView* pixels) {
  if (setjmp(r.on_error) != 0) return false;
  jpeg_create_decompress(&r.jpeg);
  r.progress.progress_monitor = on_coefficient_progress;
  r.jpeg.progress = &r.progress;
  jpeg_mem_src(&r.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&r.jpeg, TRUE);
  if (int64_t{r.jpeg.image_width} * r.jpeg.image_height > limits.max_pixels)
    r.fail(ErrorCode::kUnsupported, "it has more pixels than --max-pixels allows");
  if (int64_t{r.jpeg.image_width} * r.jpeg.image_height * 3 * int64_t{sizeof(JCOEF)} >
      limits.max_memory_bytes)
    r.fail(ErrorCode::kUnsupported,
           "its coefficients exceed the decoder's memory limit; save it as a baseline JPEG");
  if (pixels != nullptr) show_pixels(r, *pixels);
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
      return Status(ErrorCode::kUnsupported, "[codec] JPEG with unknown colours");
  }
}

Result<Frame> describe(const jpeg_decompress_struct& jpeg, Bytes bytes) {
  Frame frame;
  frame.width = static_cast<int>(jpeg.image_width);
  frame.height = static_cast<int>(jpeg.image_height);
  frame.components = jpeg.num_components;
  if (frame.components > kMaxComponents)
    return Status(ErrorCode::kUnsupported, "[codec] JPEG with more than four components");
  DLPIPE_ASSIGN_OR_RETURN(frame.color, color_of(jpeg.jpeg_color_space));
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes));
  frame.orientation = info.orientation;
  for (int c = 0; c < frame.components; ++c) {
    const jpeg_component_info& from = jpeg.comp_info[c];
    Component& to = frame.component[c];
    to.h = from.h_samp_factor;
    to.v = from.v_samp_factor;
    if (from.quant_table == nullptr)
      return Status(ErrorCode::kUnsupported, "[codec] JPEG without its tables");
    std::copy_n(from.quant_table->quantval, 64, to.quant.begin());
  }
  DLPIPE_RETURN_IF_ERROR(frame.set_geometry());
  return frame;
}

struct Writing : Call {
  jpeg_compress_struct jpeg{};
  std::array<jvirt_barray_ptr, kMaxComponents> arrays{};
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
    const Component& from = frame.component[c];
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

bool write_guarded(Writing& w, const Frame& frame, Blocks& blocks, Bytes segments, int restart_interval) {
  if (setjmp(w.on_error) != 0) return false;
  jpeg_create_compress(&w.jpeg);
  jpeg_mem_dest(&w.jpeg, &w.bytes, &w.size);
  set_frame(w, frame);
  w.jpeg.restart_interval = static_cast<unsigned>(restart_interval);
  auto* const common = reinterpret_cast<j_common_ptr>(&w.jpeg);
  for (int c = 0; c < frame.components; ++c) {
    const Component& one = frame.component[c];
    w.arrays[c] = (*w.jpeg.mem->request_virt_barray)(
        common, JPOOL_IMAGE, TRUE, rounded_up(one.blocks_wide, one.h), rounded_up(one.blocks_high, one.v),
        static_cast<JDIMENSION>(one.v));
  }
  jpeg_write_coefficients(&w.jpeg, w.arrays.data());
  for (int c = 0; c < frame.components; ++c) {
    const Component& one = frame.component[c];
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

void Blocks::reset(const Frame& frame) {
  for (int c = 0; c < frame.components; ++c) {
    wide_[c] = frame.component[c].blocks_wide;
    of_[c].resize(size_t{64} * static_cast<size_t>(wide_[c]) *
                  static_cast<size_t>(frame.component[c].blocks_high));
  }
}

Status read_jpeg(Bytes jpeg, const DecodeLimits& limits, JpegImage& image, const ImageView* pixels) {
  const auto reading = std::make_unique<Reading>(limits);
  if (!read_coefficients(*reading, jpeg, limits, pixels)) return reading->status();
  DLPIPE_ASSIGN_OR_RETURN(image.frame, describe(reading->jpeg, jpeg));
  const Frame& frame = image.frame;
  image.blocks.reset(frame);
  for (int c = 0; c < frame.components; ++c) {
    for (int y = 0; y < frame.component[c].blocks_high; ++y) {
      if (!copy_row(*reading, c, y, frame.component[c].blocks_wide, image.blocks.at(c, 0, y)))
        return reading->status();
    }
  }
  return {};
}

Result<std::vector<std::byte>> write_jpeg(const Frame& frame, Blocks& blocks, Bytes segments,
                                          int restart_interval) {
  const auto writing = std::make_unique<Writing>();
  if (!write_guarded(*writing, frame, blocks, segments, restart_interval)) return writing->status();
  const auto* first = reinterpret_cast<const std::byte*>(writing->bytes);
  return std::vector<std::byte>(first, first + writing->size);
}

std::vector<std::byte> metadata_of(Bytes jpeg) {
  std::vector<std::byte> kept;
  JpegSegments segments(jpeg);
  for (JpegSegments::Segment segment; segments.next(&segment);) {
    const bool is_metadata = (segment.marker >= 0xe0 && segment.marker <= 0xef) || segment.marker == 0xfe;
    if (!is_metadata) continue;
    const Bytes whole = jpeg.subspan(segment.begin, segment.end - segment.begin);
    kept.insert(kept.end(), whole.begin(), whole.end());
  }
  return kept;
}

}  // namespace dlpipe::data::coef
