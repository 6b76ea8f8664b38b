// Encoders: JPEG for re-coded pictures, PNG for pixels that must come back as they are.
#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

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

struct PngEncoding {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<std::byte>* bytes = nullptr;
  std::array<char, 256> message{};
  std::jmp_buf on_error{};
};

[[noreturn]] void on_png_encode_error(png_structp png, png_const_charp text) {
  auto* encoding = static_cast<PngEncoding*>(png_get_error_ptr(png));
  std::snprintf(encoding->message.data(), encoding->message.size(), "%s", text);
  std::longjmp(encoding->on_error, 1);
}
void ignore_png_warning(png_structp, png_const_charp) {}

bool append_nothrow(std::vector<std::byte>& bytes, const png_byte* from, size_t count) {
  try {
    const auto* first = reinterpret_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + count);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}
void write_bytes(png_structp png, png_bytep from, size_t count) {
  auto* encoding = static_cast<PngEncoding*>(png_get_io_ptr(png));
  if (!append_nothrow(*encoding->bytes, from, count)) png_error(png, "out of memory");
}
void flush_bytes(png_structp) {}

// Holds no object with a destructor: longjmp returns here.
bool encode_guarded(PngEncoding& e, const ConstImageView& image) {
  if (setjmp(e.on_error) != 0) return false;
  e.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, on_png_encode_error, ignore_png_warning);
  if (e.png != nullptr) e.info = png_create_info_struct(e.png);
  if (e.info == nullptr) return false;
  png_set_write_fn(e.png, &e, write_bytes, flush_bytes);
  png_set_user_limits(e.png, 0x7fffffff, 0x7fffffff);  // libpng's own: a million pixels a side
  png_set_IHDR(e.png, e.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               8, image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(e.png, e.info);
  for (int y = 0; y < image.height; ++y) png_write_row(e.png, image.row(y));
  png_write_end(e.png, nullptr);
  return true;
}

Status check_image(const ConstImageView& image) {
  if (image.width >= 1 && image.height >= 1 && (image.channels == 1 || image.channels == 3)) return {};
  return misuse("codec", "cannot encode an image of ", image.width, "x", image.height, "x", image.channels,
                "; give it pixels and 1 or 3 channels");
}

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(const ConstImageView& image, int quality, bool subsample) {
  DLPIPE_RETURN_IF_ERROR(check_image(image));
  if (quality < 1 || quality > 100) return misuse("codec", "JPEG quality ", quality, "; give 1 to 100");
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

Result<std::vector<std::byte>> encode_png(const ConstImageView& image) {
  DLPIPE_RETURN_IF_ERROR(check_image(image));
  std::vector<std::byte> bytes;
  PngEncoding encoding;
  encoding.bytes = &bytes;
  const bool encoded = encode_guarded(encoding, image);
  if (encoding.png != nullptr) png_destroy_write_struct(&encoding.png, &encoding.info);
  if (!encoded)
    return Status(ErrorCode::kUnsupported, concat("[codec] PNG encoder: ", encoding.message.data()));
  return bytes;
}

}  // namespace dlpipe::data
