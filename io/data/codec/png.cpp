#include "dlpipe/io/data/codec/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

// How Rows and what it fills use their scratch: eight bytes for the samples of a pixel, three for the pixel.
constexpr size_t kScratchPerPixel = 11;

}  // namespace

// What stands before the pixels.
struct PngDecoder::Header {
  int width = 0;
  int height = 0;
  int depth = 0;     // bits of a sample
  int channels = 0;  // as stored, alpha with them
  bool is_palette = false;
  bool is_interlaced = false;
  png_colorp colors = nullptr;
  int color_count = 0;
  png_bytep alphas = nullptr;  // of the palette's first entries
  int alpha_count = 0;
  png_color_16p transparent = nullptr;  // the one colour that is, of pictures without alpha
  size_t data_at = 0;                   // of the first IDAT chunk

  size_t row_bytes(int columns) const { return (static_cast<size_t>(columns) * channels * depth + 7) / 8; }
  int pixel_bytes() const { return std::max(1, channels * depth / 8); }
};

namespace {

using Header = PngDecoder::Header;

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

void on_libpng_warning(png_structp /*png*/, png_const_charp /*text*/) {}  // all are about metadata

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
  png_read_info(call.png, call.info);  // and the length and type of the first IDAT chunk
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

// The one frame that longjmp returns to; it holds no object with a destructor.
bool read_header_guarded(HeaderCall& call) {
  if (setjmp(call.on_error) != 0) return false;
  call.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &call, on_libpng_error, on_libpng_warning);
  if (call.png != nullptr) call.info = png_create_info_struct(call.png);
  if (call.info == nullptr) call.fail(ErrorCode::kOutOfMemory, "out of memory");
  read_header(call);
  return true;
}

// How the rows of one file become pixels of one output.
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

  /// Pixels `first` to `first + count` of a row to where they belong; `scratch` holds eight bytes for each.
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
  // Indices behind the palette's end are black, as libpng has them.
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

  // A byte for each sample: of 16 bits the upper one, fewer spread over 0 to 255 or, of indices, as they are.
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
    // the fourth byte is the next pixel's, which comes after
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
  std::array<uint8_t, 6> key_{};  // the transparent colour as the rows have it
  int key_bytes_ = 0;
  std::array<uint8_t, 3> behind_{};  // what is seen in its place
};

// Adam7 (PNG, 8.2): where a pass begins and how far apart its pixels are. A picture that isn't interlaced is one pass.
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

// The pixels of one pass that lie in the region, each to its place. `data` begins with the pass and ends up behind it; `zeros`
// holds a row of them, `scratch` eleven bytes for each column of the region.
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
      return Status(ErrorCode::kCorrupt, concat("a row has filter ", filter, ", of which there is none"));
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
  const char* const kind = status.code() == ErrorCode::kCorrupt ? "damaged PNG: " : "PNG: ";
  return Status(status.code(), concat("[codec] ", kind, status.message()));
}

Status PngDecoder::decode_rows(std::span<const std::byte> bytes, const Header& header, const Region& region,
                               const ImageView& out) {
  if (int64_t{header.width} * header.height > limits_.max_pixels)
    return Status(ErrorCode::kUnsupported, "more pixels than the limit (--max-pixels)");
  if (int64_t{region.x} + region.width > header.width || int64_t{region.y} + region.height > header.height)
    return Status(ErrorCode::kMisuse, "region outside the picture");
  const size_t size = data_bytes(header);
  if (size > static_cast<size_t>(limits_.max_memory_bytes))
    return Status(ErrorCode::kUnsupported, "larger than the decoder's memory limit");
  DLPIPE_RETURN_IF_ERROR(data_.read(bytes, header.data_at, size));
  zeros_.assign(header.row_bytes(header.width), 0);
  scratch_.resize(static_cast<size_t>(region.width) * kScratchPerPixel);
  const Rows rows(header, out.channels, limits_, values_);
  std::span<uint8_t> data = data_.rows();
  for (const Pass& pass : passes_of(header))
    DLPIPE_RETURN_IF_ERROR(take_pass(pass, header, rows, region, out, data, zeros_.data(), scratch_.data()));
  return {};
}

}  // namespace dlpipe::data
