#include "dlpipe/io/data/codec/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

struct PngCall {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> bytes;
  size_t at = 0;
  Region region;
  ImageView out;
  DecodeLimits limits;
  bool keeps_indices = false;
  // Of a picture of indices that becomes colours: what each is in `out`, of four bytes. libpng's own expansion is slower.
  bool has_palette = false;
  std::array<std::array<uint8_t, 4>, PNG_MAX_PALETTE_LENGTH> palette{};
  std::vector<uint8_t>* row = nullptr;
  bool in_pixels = false;  // warnings from here on are about picture data
  ErrorCode code = ErrorCode::kCorrupt;
  std::array<char, 256> message{};
  std::jmp_buf on_error{};

  [[noreturn]] void fail(ErrorCode why, const char* text) {
    code = why;
    std::snprintf(message.data(), message.size(), "%s", text);
    std::longjmp(on_error, 1);
  }
};

[[noreturn]] void on_libpng_error(png_structp png, png_const_charp text) {
  static_cast<PngCall*>(png_get_error_ptr(png))->fail(ErrorCode::kCorrupt, text);
}

void on_libpng_warning(png_structp png, png_const_charp text) {
  auto* call = static_cast<PngCall*>(png_get_error_ptr(png));
  if (call->in_pixels) call->fail(ErrorCode::kCorrupt, text);
}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* call = static_cast<PngCall*>(png_get_io_ptr(png));
  if (count > call->bytes.size() - call->at) call->fail(ErrorCode::kCorrupt, "the file ends too early");
  std::memcpy(to, call->bytes.data() + call->at, count);
  call->at += count;
}

// Vectors may throw, and an exception must not pass libpng's frames: false says that there is no memory.
bool resize_nothrow(std::vector<uint8_t>& row, size_t bytes) {
  try {
    row.resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Indices behind the palette's end are black, as libpng has them.
void take_palette(PngCall& call) {
  png_colorp colors = nullptr;
  int count = 0;
  png_get_PLTE(call.png, call.info, &colors, &count);
  for (int i = 0; i < count; ++i) {
    const std::array<uint8_t, 3> rgb = {colors[i].red, colors[i].green, colors[i].blue};
    convert_row(rgb.data(), 3, call.palette[i].data(), call.out.channels, 1);
  }
  call.has_palette = true;
}

void palette_row(const PngCall& call, const uint8_t* indices, uint8_t* to, int count) {
  const int last = count - 1;
  if (call.out.channels == 1) {
    for (int i = 0; i <= last; ++i) to[i] = call.palette[indices[i]][0];
    return;
  }
  // the fourth byte is the next pixel's, which comes after
  for (int i = 0; i < last; ++i) std::memcpy(to + ptrdiff_t{3} * i, call.palette[indices[i]].data(), 4);
  std::memcpy(to + ptrdiff_t{3} * last, call.palette[indices[last]].data(), 3);
}

void start(PngCall& call) {
  png_set_read_fn(call.png, &call, read_bytes);
  png_set_user_limits(call.png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(call.png, 8u << 20);
  png_read_info(call.png, call.info);
  const int64_t width = png_get_image_width(call.png, call.info);
  const int64_t height = png_get_image_height(call.png, call.info);
  if (width * height > call.limits.max_pixels)
    call.fail(ErrorCode::kUnsupported, "more pixels than the limit (--max-pixels)");
  if (int64_t{call.region.x} + call.region.width > width ||
      int64_t{call.region.y} + call.region.height > height)
    call.fail(ErrorCode::kMisuse, "region outside the picture");
  if (call.keeps_indices) {
    png_set_packing(call.png);  // a byte for each
    return;
  }
  const int color_type = png_get_color_type(call.png, call.info);
  if (color_type == PNG_COLOR_TYPE_PALETTE && !call.limits.background) {
    png_set_packing(call.png);
    png_set_check_for_invalid_index(call.png, -1);
    return take_palette(call);
  }
  if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(call.png);
  if (color_type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(call.png);
  png_set_strip_16(call.png);
  if (!call.limits.background)
    png_set_strip_alpha(call.png);
  else if (png_get_valid(call.png, call.info, PNG_INFO_tRNS) != 0)
    png_set_tRNS_to_alpha(call.png);
}

// `count` pixels as libpng gives them, to the channels of `out`.
void store(const PngCall& call, const uint8_t* from, int channels, uint8_t* to, int count) {
  if (call.has_palette)
    palette_row(call, from, to, count);
  else if (channels == 2 || channels == 4)
    composite_row(from, channels, to, call.out.channels, count, *call.limits.background);
  else
    convert_row(from, channels, to, call.out.channels, count);
}

void read_rows(PngCall& call, int channels) {
  const Region& region = call.region;
  uint8_t* const row = call.row->data();
  for (int y = 0; y < region.y + region.height; ++y) {
    png_read_row(call.png, row, nullptr);
    if (y < region.y) continue;
    store(call, row + static_cast<ptrdiff_t>(region.x) * channels, channels, call.out.row(y - region.y),
          region.width);
  }
}

void spread(const uint8_t* from, int count, int channels, uint8_t* to, int step) {
  if (channels == 1)
    for (int i = 0; i < count; ++i) to[ptrdiff_t{i} * step] = from[i];
  else
    for (int i = 0; i < count; ++i) std::memcpy(to + ptrdiff_t{3} * i * step, from + ptrdiff_t{3} * i, 3);
}

// The rows of Adam7's seven passes as they stand in the file, each pixel to its place. libpng's own way repeats every pixel over
// those that later passes bring, and merges whole rows seven times.
void read_passes(PngCall& call, int channels, uint8_t* converted) {
  const int width = static_cast<int>(png_get_image_width(call.png, call.info));
  const int height = static_cast<int>(png_get_image_height(call.png, call.info));
  const Region& region = call.region;
  uint8_t* const row = call.row->data();
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
    const int columns = static_cast<int>(PNG_PASS_COLS(width, pass));
    const int rows = columns == 0 ? 0 : static_cast<int>(PNG_PASS_ROWS(height, pass));
    const int step = 1 << PNG_PASS_COL_SHIFT(pass);
    // of this pass, the columns before the region and before its end
    const int first = static_cast<int>(PNG_PASS_COLS(region.x, pass));
    const int count = static_cast<int>(PNG_PASS_COLS(region.x + region.width, pass)) - first;
    const int x = static_cast<int>(PNG_COL_FROM_PASS_COL(first, pass)) - region.x;
    for (int r = 0; r < rows; ++r) {
      png_read_row(call.png, row, nullptr);
      const int y = static_cast<int>(PNG_ROW_FROM_PASS_ROW(r, pass)) - region.y;
      if (count <= 0 || y < 0 || y >= region.height) continue;
      store(call, row + ptrdiff_t{first} * channels, channels, converted, count);
      spread(converted, count, call.out.channels, call.out.row(y) + ptrdiff_t{x} * call.out.channels, step);
    }
  }
}

void read_pixels(PngCall& call) {
  const bool interlaced = png_get_interlace_type(call.png, call.info) != PNG_INTERLACE_NONE;
  call.in_pixels = true;
  png_read_update_info(call.png, call.info);
  const int channels = png_get_channels(call.png, call.info);
  const size_t row_bytes = png_get_rowbytes(call.png, call.info);
  const size_t converted_bytes = interlaced ? static_cast<size_t>(call.region.width) * call.out.channels : 0;
  if (!resize_nothrow(*call.row, row_bytes + converted_bytes))
    call.fail(ErrorCode::kOutOfMemory, "out of memory");
  if (interlaced)
    read_passes(call, channels, call.row->data() + row_bytes);
  else
    read_rows(call, channels);
  const int64_t height = png_get_image_height(call.png, call.info);
  if (interlaced || call.region.y + call.region.height == height) {
    call.in_pixels = false;  // what follows the pixels is metadata
    png_read_end(call.png, nullptr);
  }
}

// The one frame that longjmp returns to; it holds no object with a destructor.
bool decode_guarded(PngCall& call) {
  if (setjmp(call.on_error) != 0) return false;
  call.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &call, on_libpng_error, on_libpng_warning);
  if (call.png != nullptr) call.info = png_create_info_struct(call.png);
  if (call.info == nullptr) call.fail(ErrorCode::kOutOfMemory, "out of memory");
  start(call);
  read_pixels(call);
  return true;
}

}  // namespace

Status PngDecoder::decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  PngCall call;
  call.bytes = bytes;
  call.region = region;
  call.out = out;
  call.limits = limits_;
  call.keeps_indices = values_ == Values::kIndices;
  call.row = &row_;
  const bool decoded = decode_guarded(call);
  if (call.png != nullptr) png_destroy_read_struct(&call.png, &call.info, nullptr);
  if (decoded) return {};
  const char* const kind = call.code == ErrorCode::kCorrupt ? "damaged PNG: " : "PNG: ";
  return Status(call.code, concat("[codec] ", kind, call.message.data()));
}

}  // namespace dlpipe::data
