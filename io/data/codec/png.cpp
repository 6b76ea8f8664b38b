#include "io/data/codec/png.h"

#include <libdeflate.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

constexpr size_t kMostExpansion = 1032;  // of deflate
constexpr size_t kMostKept = 32u << 20;

// PNG, 5.3: length, type, data, and the CRC of type and data.
constexpr size_t kFrameBytes = 12;

struct Chunk {
  std::string_view type;
  std::span<const std::byte> data;
  uint32_t sum = 0;

  bool sum_matches() const { return libdeflate_crc32(0, type.data(), type.size() + data.size()) == sum; }
};

Result<Chunk> read_chunk(std::span<const std::byte> file, size_t& at) {
  if (file.size() - at < kFrameBytes || file.size() - at - kFrameBytes < load_be32(file, at))
    return Status(ErrorCode::kCorrupt, "the file ends too early");
  const size_t length = load_be32(file, at);
  Chunk chunk;
  chunk.type = {reinterpret_cast<const char*>(&file[at + 4]), 4};  // the data follows it
  chunk.data = file.subspan(at + 8, length);
  chunk.sum = load_be32(file, at + 8 + length);
  at += kFrameBytes + length;
  return chunk;
}

Status damaged_data(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

// The Paeth predictor (PNG, 9.4). `corner` is the upper left neighbour.
uint8_t paeth(int left, int above, int corner) {
  const int from_left = std::abs(above - corner);
  const int from_above = std::abs(left - corner);
  const int from_corner = std::abs(left + above - 2 * corner);
  const int nearer = from_above <= from_corner ? above : corner;
  return static_cast<uint8_t>(from_left <= from_above && from_left <= from_corner ? left : nearer);
}

// A pixel's bytes stay in registers until the next pixel needs them.
template <size_t kPixel>
bool undo(int filter, std::span<uint8_t> row, const uint8_t* above) {
  std::array<uint8_t, kPixel> left{};
  std::array<uint8_t, kPixel> corner{};
  const size_t bytes = row.size();
  uint8_t* const to = row.data();
  switch (filter) {
    case 0:
      return true;
    case 1:
      for (size_t i = 0; i < bytes; i += kPixel)
        for (size_t c = 0; c < kPixel; ++c) to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + left[c]);
      return true;
    case 2:
      for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(to[i] + above[i]);
      return true;
    case 3:
      for (size_t i = 0; i < bytes; i += kPixel)
        for (size_t c = 0; c < kPixel; ++c)
          to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + (left[c] + above[i + c]) / 2);
      return true;
    case 4:
      for (size_t i = 0; i < bytes; i += kPixel) {
        for (size_t c = 0; c < kPixel; ++c) {
          const uint8_t up = above[i + c];
          to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + paeth(left[c], up, corner[c]));
          corner[c] = up;
        }
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

void PngData::Free::operator()(libdeflate_decompressor* decompressor) const {
  libdeflate_free_decompressor(decompressor);
}

PngData::PngData() : decompressor_(libdeflate_alloc_decompressor()) {}

Status PngData::read(std::span<const std::byte> file, size_t at, size_t bytes) {
  if (decompressor_ == nullptr) return Status(ErrorCode::kOutOfMemory, "out of memory");
  std::span<const std::byte> compressed;
  joined_.clear();
  bool behind = false;
  for (bool ends = false; !ends;) {
    DLPIPE_ASSIGN_OR_RETURN(const Chunk chunk, read_chunk(file, at));
    ends = chunk.type == "IEND";
    if (chunk.type != "IDAT") {
      behind = true;
      continue;
    }
    if (behind) return damaged_data("IDAT chunks are not consecutive");
    if (!chunk.sum_matches()) return damaged_data("IDAT: CRC error");
    if (compressed.empty()) {
      compressed = chunk.data;
      continue;
    }
    if (joined_.empty()) {
      joined_.reserve(compressed.size() + chunk.data.size() + file.size() - at);
      joined_.assign(compressed.begin(), compressed.end());
    }
    joined_.insert(joined_.end(), chunk.data.begin(), chunk.data.end());
    compressed = joined_;
  }
  if (bytes / kMostExpansion > compressed.size()) return damaged_data("not enough image data");
  rows_.resize(bytes);
  size_t taken = 0;
  size_t given = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(
      decompressor_.get(), compressed.data(), compressed.size(), rows_.data(), rows_.size(), &taken, &given);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return damaged_data("too much image data");
  if (result != LIBDEFLATE_SUCCESS) return damaged_data("its compressed data can't be read");
  if (given < bytes) return damaged_data("not enough image data");
  if (taken < compressed.size()) return damaged_data("extra compressed data");
  return {};
}

void PngData::let_go() {
  if (scratch_bytes() <= kMostKept) return;
  joined_ = std::vector<std::byte>();
  rows_ = std::vector<uint8_t>();
}

bool undo_filter(int filter, std::span<uint8_t> row, const uint8_t* above, int pixel_bytes) {
  switch (pixel_bytes) {
    case 1:
      return undo<1>(filter, row, above);
    case 2:
      return undo<2>(filter, row, above);
    case 3:
      return undo<3>(filter, row, above);
    case 4:
      return undo<4>(filter, row, above);
    case 6:
      return undo<6>(filter, row, above);
    default:
      return undo<8>(filter, row, above);
  }
}

// The part of the file before the pixels.
struct PngDecoder::Header {
  int width = 0;
  int height = 0;
  int depth = 0;     // bits of a sample
  int channels = 0;  // as stored, including alpha
  bool is_palette = false;
  bool is_interlaced = false;
  png_colorp colors = nullptr;
  int color_count = 0;
  png_bytep alphas = nullptr;  // of the palette's first entries
  int alpha_count = 0;
  png_color_16p transparent = nullptr;  // the transparent colour of images without alpha
  size_t data_at = 0;                   // of the first IDAT chunk

  size_t row_bytes(int columns) const { return (static_cast<size_t>(columns) * channels * depth + 7) / 8; }
  int pixel_bytes() const { return std::max(1, channels * depth / 8); }
};

namespace {

using Header = PngDecoder::Header;

// Scratch bytes per pixel: eight for its samples (Rows::convert), three for the converted pixel (take_pass).
constexpr size_t kScratchPerPixel = 11;

struct HeaderCall {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> bytes;
  size_t at = 0;
  Header header;
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
  static_cast<HeaderCall*>(png_get_error_ptr(png))->fail(ErrorCode::kCorrupt, text);
}

void on_libpng_warning(png_structp /*png*/, png_const_charp /*text*/) {}  // all warnings are about metadata

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* call = static_cast<HeaderCall*>(png_get_io_ptr(png));
  if (count > call->bytes.size() - call->at) call->fail(ErrorCode::kCorrupt, "the file ends too early");
  std::memcpy(to, call->bytes.data() + call->at, count);
  call->at += count;
}

void read_header(HeaderCall& call) {
  png_set_read_fn(call.png, &call, read_bytes);
  png_set_user_limits(call.png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(call.png, 8u << 20);
  png_read_info(call.png, call.info);  // includes the length and type of the first IDAT chunk
  Header& header = call.header;
  header.data_at = call.at - 8;
  header.width = static_cast<int>(png_get_image_width(call.png, call.info));
  header.height = static_cast<int>(png_get_image_height(call.png, call.info));
  header.depth = png_get_bit_depth(call.png, call.info);
  header.channels = png_get_channels(call.png, call.info);
  header.is_palette = png_get_color_type(call.png, call.info) == PNG_COLOR_TYPE_PALETTE;
  header.is_interlaced = png_get_interlace_type(call.png, call.info) != PNG_INTERLACE_NONE;
  png_get_PLTE(call.png, call.info, &header.colors, &header.color_count);
  png_get_tRNS(call.png, call.info, &header.alphas, &header.alpha_count, &header.transparent);
}

// The only frame that longjmp returns to; it holds no object with a destructor.
bool read_header_guarded(HeaderCall& call) {
  if (setjmp(call.on_error) != 0) return false;
  call.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &call, on_libpng_error, on_libpng_warning);
  if (call.png != nullptr) call.info = png_create_info_struct(call.png);
  if (call.info == nullptr) call.fail(ErrorCode::kOutOfMemory, "out of memory");
  read_header(call);
  return true;
}

// Converts the rows of one file to pixels of one output.
class Rows {
 public:
  Rows(const Header& header, int out_channels, const DecodeLimits& limits, PngDecoder::Values values)
      : header_(header), out_channels_(out_channels), background_(limits.background) {
    if (values == PngDecoder::Values::kIndices) return;
    if (header.depth < 8 && !header.is_palette) grey_step_ = 255 / ((1 << header.depth) - 1);
    looks_up_ = header.is_palette;
    if (looks_up_) take_palette();
    if (background_ && header.transparent != nullptr && !header.is_palette) take_transparent();
  }

  /// Writes pixels `first` to `first + count` of a row to their places; `scratch` holds eight bytes for each.
  void convert(const uint8_t* row, int first, int count, uint8_t* to, uint8_t* scratch) const {
    const uint8_t* const samples = bytes_of(row, first, count, scratch);
    const int channels = header_.channels;
    if (looks_up_) {
      look_up(samples, to, count);
    } else if (channels == 2 || channels == 4) {
      if (background_)
        composite_row(samples, channels, to, out_channels_, count, *background_);
      else
        drop_alpha(samples, to, count, scratch + ptrdiff_t{4} * count);
    } else {
      convert_row(samples, channels, to, out_channels_, count);
    }
    if (is_keyed_)
      fill_transparent(header_.depth == 16 ? row + ptrdiff_t{first} * key_bytes_ : samples, to, count);
  }

 private:
  // Indices after the palette's end are black, as in libpng.
  void take_palette() {
    for (int i = 0; i < header_.color_count; ++i) {
      const png_color& color = header_.colors[i];
      const auto alpha = i < header_.alpha_count ? header_.alphas[i] : uint8_t{255};
      const std::array<uint8_t, 4> rgba = {color.red, color.green, color.blue, alpha};
      if (background_)
        composite_row(rgba.data(), 4, palette_[i].data(), out_channels_, 1, *background_);
      else
        convert_row(rgba.data(), 3, palette_[i].data(), out_channels_, 1);
    }
  }

  void take_transparent() {
    const png_color_16& color = *header_.transparent;
    const bool is_grey = header_.channels == 1;
    const std::array<int, 3> values = {is_grey ? color.gray : color.red, color.green, color.blue};
    for (int c = 0; c < header_.channels; ++c) {
      if (header_.depth == 16) key_[key_bytes_++] = static_cast<uint8_t>(values[c] >> 8);
      key_[key_bytes_++] = static_cast<uint8_t>(
          header_.depth < 8 ? (values[c] & ((1 << header_.depth) - 1)) * grey_step_ : values[c]);
    }
    is_keyed_ = true;
    const std::array<uint8_t, 4> clear{};
    composite_row(clear.data(), header_.channels + 1, behind_.data(), out_channels_, 1, *background_);
  }

  // Returns a byte for each sample: the upper byte of 16 bits. Grey of fewer than 8 bits is scaled to 0 to 255. Palette indices
  // are unchanged.
  const uint8_t* bytes_of(const uint8_t* row, int first, int count, uint8_t* scratch) const {
    const int depth = header_.depth;
    const ptrdiff_t skip = ptrdiff_t{first} * header_.channels;
    if (depth == 8) return row + skip;
    if (depth == 16) {
      const int samples = count * header_.channels;
      for (int i = 0; i < samples; ++i) scratch[i] = row[2 * (skip + i)];
      return scratch;
    }
    const int per_byte = 8 / depth;
    const int mask = (1 << depth) - 1;
    for (int i = 0; i < count; ++i) {
      const int x = first + i;
      const int shift = 8 - depth * (x % per_byte + 1);
      scratch[i] = static_cast<uint8_t>(((row[x / per_byte] >> shift) & mask) * grey_step_);
    }
    return scratch;
  }

  void look_up(const uint8_t* indices, uint8_t* to, int count) const {
    if (out_channels_ == 1) {
      for (int i = 0; i < count; ++i) to[i] = palette_[indices[i]][0];
      return;
    }
    // the fourth byte belongs to the next pixel, which is written afterwards
    const int last = count - 1;
    for (int i = 0; i < last; ++i) std::memcpy(to + ptrdiff_t{3} * i, palette_[indices[i]].data(), 4);
    std::memcpy(to + ptrdiff_t{3} * last, palette_[indices[last]].data(), 3);
  }

  void drop_alpha(const uint8_t* from, uint8_t* to, int count, uint8_t* scratch) const {
    const int colours = header_.channels - 1;
    uint8_t* const kept = colours == out_channels_ ? to : scratch;
    if (colours == 1)
      for (int i = 0; i < count; ++i) kept[i] = from[2 * i];
    else
      for (int i = 0; i < count; ++i) std::memcpy(kept + ptrdiff_t{3} * i, from + ptrdiff_t{4} * i, 3);
    if (kept != to) convert_row(kept, colours, to, out_channels_, count);
  }

  void fill_transparent(const uint8_t* from, uint8_t* to, int count) const {
    for (int i = 0; i < count; ++i, from += key_bytes_, to += out_channels_)
      if (std::memcmp(from, key_.data(), static_cast<size_t>(key_bytes_)) == 0)
        std::memcpy(to, behind_.data(), static_cast<size_t>(out_channels_));
  }

  const Header& header_;
  int out_channels_;
  std::optional<std::array<uint8_t, 3>> background_;
  int grey_step_ = 1;  // of grey of less than 8 bits
  bool looks_up_ = false;
  std::array<std::array<uint8_t, 4>, PNG_MAX_PALETTE_LENGTH> palette_{};
  bool is_keyed_ = false;
  std::array<uint8_t, 6> key_{};  // the transparent colour in the rows' format
  int key_bytes_ = 0;
  std::array<uint8_t, 3> behind_{};  // the colour that replaces it
};

// Adam7 (PNG, 8.2): where a pass begins and how far apart its pixels are. An image that is not interlaced is one pass.
struct Pass {
  int x, y, step_x, step_y;
};
constexpr Pass kWhole = {0, 0, 1, 1};
constexpr std::array<Pass, 7> kAdam7 = {
    {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};

std::span<const Pass> passes_of(const Header& header) {
  if (header.is_interlaced) return kAdam7;
  return {&kWhole, 1};
}

// How many of start, start + step, ... are less than `end`.
int count_before(int64_t end, int start, int step) {
  return end <= start ? 0 : static_cast<int>((end - start + step - 1) / step);
}

size_t data_bytes(const Header& header) {
  size_t bytes = 0;
  for (const Pass& pass : passes_of(header)) {
    const int columns = count_before(header.width, pass.x, pass.step_x);
    if (columns > 0)
      bytes += (1 + header.row_bytes(columns)) *
               static_cast<size_t>(count_before(header.height, pass.y, pass.step_y));
  }
  return bytes;
}

void spread(const uint8_t* from, int count, int channels, uint8_t* to, int step) {
  if (channels == 1)
    for (int i = 0; i < count; ++i) to[ptrdiff_t{i} * step] = from[i];
  else
    for (int i = 0; i < count; ++i) std::memcpy(to + ptrdiff_t{3} * i * step, from + ptrdiff_t{3} * i, 3);
}

// Writes the pixels of one pass that are in the region to their places. `data` begins with the pass and is moved past it.
// `zeros` holds a row of zeros, `scratch` eleven bytes for each column of the region.
Status take_pass(const Pass& pass, const Header& header, const Rows& rows, const Region& region,
                 const ImageView& out, std::span<uint8_t>& data, const uint8_t* zeros, uint8_t* scratch) {
  const int columns = count_before(header.width, pass.x, pass.step_x);
  const int row_count = columns == 0 ? 0 : count_before(header.height, pass.y, pass.step_y);
  const size_t row_bytes = header.row_bytes(columns);
  const int first = count_before(region.x, pass.x, pass.step_x);
  const int count = count_before(region.x + region.width, pass.x, pass.step_x) - first;
  const int x = pass.x + first * pass.step_x - region.x;
  const uint8_t* above = zeros;
  for (int r = 0; r < row_count; ++r) {
    const int filter = data[0];
    const std::span<uint8_t> row = data.subspan(1, row_bytes);
    data = data.subspan(1 + row_bytes);
    if (!undo_filter(filter, row, above, header.pixel_bytes()))
      return Status(ErrorCode::kCorrupt, concat("a row has the unknown filter ", filter));
    above = row.data();
    const int y = pass.y + r * pass.step_y - region.y;
    if (count == 0 || y < 0 || y >= region.height) continue;
    uint8_t* const to = out.row(y) + ptrdiff_t{x} * out.channels;
    if (pass.step_x == 1) {
      rows.convert(row.data(), first, count, to, scratch);
    } else {
      uint8_t* const converted = scratch + ptrdiff_t{8} * count;
      rows.convert(row.data(), first, count, converted, scratch);
      spread(converted, count, out.channels, to, pass.step_x);
    }
  }
  return {};
}

}  // namespace

Status PngDecoder::decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  HeaderCall call;
  call.bytes = bytes;
  Status status;
  if (read_header_guarded(call)) {
    try {
      status = decode_rows(bytes, call.header, region, out);
    } catch (const std::bad_alloc&) {
      status = Status(ErrorCode::kOutOfMemory, "out of memory");
    }
  } else {
    status = Status(call.code, call.message.data());
  }
  data_.let_go();
  if (call.png != nullptr) png_destroy_read_struct(&call.png, &call.info, nullptr);
  if (status.ok()) return status;
  const char* const kind = status.code() == ErrorCode::kCorrupt ? "corrupt PNG: " : "PNG: ";
  return Status(status.code(), concat("[codec] ", kind, status.message()));
}

Status PngDecoder::decode_rows(std::span<const std::byte> bytes, const Header& header, const Region& region,
                               const ImageView& out) {
  if (int64_t{header.width} * header.height > limits_.max_pixels)
    return Status(ErrorCode::kUnsupported, "it has more pixels than --max-pixels allows");
  if (int64_t{region.x} + region.width > header.width || int64_t{region.y} + region.height > header.height)
    return Status(ErrorCode::kMisuse, "the region is outside the image");
  const size_t size = data_bytes(header);
  if (size > static_cast<size_t>(limits_.max_memory_bytes))
    return Status(ErrorCode::kUnsupported, "it exceeds the decoder's memory limit");
  DLPIPE_RETURN_IF_ERROR(data_.read(bytes, header.data_at, size));
  zeros_.assign(header.row_bytes(header.width), 0);
  scratch_.resize(static_cast<size_t>(region.width) * kScratchPerPixel);
  const Rows rows(header, out.channels, limits_, values_);
  std::span<uint8_t> data = data_.rows();
  for (const Pass& pass : passes_of(header))
    DLPIPE_RETURN_IF_ERROR(take_pass(pass, header, rows, region, out, data, zeros_.data(), scratch_.data()));
  return {};
}

namespace {

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
  e.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, on_png_encode_error, on_libpng_warning);
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

}  // namespace

Result<std::vector<std::byte>> encode_png(const ConstImageView& image) {
  DLPIPE_RETURN_IF_ERROR(check_encodable(image));
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
