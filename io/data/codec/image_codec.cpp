#include "dlpipe/codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/codec/coef/decoder.h"
#include "io/data/codec/coef/record.h"
#include "io/data/codec/jpeg.h"
#include "io/data/codec/png.h"
#include "io/data/codec/restart.h"
#include "io/data/codec/webp.h"

namespace dlpipe::data {

std::string_view image_layout_name(ImageLayout layout) {
  switch (layout) {
    case ImageLayout::kNone:
      return "none";
    case ImageLayout::kJpeg:
      return "jpeg";
    case ImageLayout::kPng:
      return "png";
    case ImageLayout::kRaw:
      return "raw";
    case ImageLayout::kCoefficients:
      return "coefficients";
    case ImageLayout::kRestart:
      return "restart";
    case ImageLayout::kWebp:
      return "webp";
    case ImageLayout::kBmp:
      return "bmp";
    case ImageLayout::kPnm:
      return "pnm";
  }
  return "unknown";
}

namespace {

using Bytes = std::span<const std::byte>;

bool starts_with(Bytes bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() && std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

Status corrupt(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat("[codec] ", what, "; the file is corrupt"));
}

// The probable type of a file that no decoder supports, for the message.
std::string_view foreign_format(Bytes bytes) {
  if (starts_with(bytes, "GIF8")) return "GIF";
  if (starts_with(bytes, std::string_view("II*\0", 4)) || starts_with(bytes, std::string_view("MM\0*", 4)))
    return "TIFF";
  if (starts_with(bytes, std::string_view("\0\0\0\x0cjP  ", 8))) return "JPEG 2000";
  if (starts_with(bytes, std::string_view("\0\0\0\x0cJXL ", 8)) || starts_with(bytes, "\xff\x0a"))
    return "JPEG XL";
  if (bytes.size() < 12 || !starts_with(bytes.subspan(4), "ftyp")) return {};
  return starts_with(bytes.subspan(8), "avi") ? "AVIF" : "HEIC";
}

constexpr bool is_frame_header(uint32_t marker) {  // SOF0..15, without DHT, JPG, DAC
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

constexpr uint32_t kProgressive = 0xc2;
constexpr uint32_t kFirstArithmetic = 0xc9;

/// The smallest number of bytes that can code a frame of these components. A block needs at least one bit for its DC and,
/// in a sequential file, one for the end of its AC. Arithmetic coding has no such lower limit, so the result is 0.
int64_t least_scan_bytes(Bytes frame, uint32_t marker, int width, int height, int components) {
  if (marker >= kFirstArithmetic) return 0;
  constexpr size_t kFactors = 7;  // of the first component; three bytes each
  const auto factor = [&](int c, int shift) {
    return load_u8(frame, kFactors + 3 * static_cast<size_t>(c)) >> shift & 15;
  };
  int most_h = 1;
  int most_v = 1;
  for (int c = 0; c < components; ++c) {
    most_h = std::max(most_h, factor(c, 4));
    most_v = std::max(most_v, factor(c, 0));
  }
  const auto blocks = [](int64_t pixels, int own, int most) {
    return ((pixels * own + most - 1) / most + 7) / 8;
  };
  int64_t all = 0;
  for (int c = 0; c < components; ++c) {
    const bool alone = components == 1;
    all += blocks(width, alone ? 1 : factor(c, 4), alone ? 1 : most_h) *
           blocks(height, alone ? 1 : factor(c, 0), alone ? 1 : most_v);
  }
  return all * (marker == kProgressive ? 1 : 2) / 8;
}

Status claims_too_much(std::string_view format, const ImageInfo& info, uint64_t bytes) {
  return corrupt(concat(format, " claims ", info.width, "x", info.height, " pixels, more than its ", bytes,
                        " bytes can hold"));
}

Result<ImageInfo> parse_frame(Bytes segment, uint32_t marker, uint64_t file_bytes, Orientation orientation) {
  if (segment.size() < 6) return corrupt("JPEG frame header is truncated");
  const bool decodable =
      marker == 0xc0 || marker == 0xc1 || marker == 0xc2 || marker == 0xc9 || marker == 0xca;
  if (!decodable) {
    return Status(ErrorCode::kUnsupported,
                  concat("[codec] JPEG process SOF", marker - 0xc0,
                         " (lossless or hierarchical) is not supported; convert it to baseline"));
  }
  if (load_u8(segment, 0) != 8) {
    return Status(ErrorCode::kUnsupported, concat("[codec] JPEG with ", int{load_u8(segment, 0)},
                                                  " bits per sample is not supported; convert it to 8 bits"));
  }
  ImageInfo info;
  info.height = static_cast<int>(load_be16(segment, 1));
  info.width = static_cast<int>(load_be16(segment, 3));
  info.orientation = orientation;
  const int components = load_u8(segment, 5);
  if (info.width == 0 || info.height == 0) return corrupt("JPEG has a width or height of 0");
  if (components != 1 && components != 3 && components != 4) {
    return Status(ErrorCode::kUnsupported, concat("[codec] JPEG with ", components,
                                                  " components is not supported; convert it to RGB"));
  }
  info.channels = components == 1 ? 1 : 3;
  if (segment.size() < 6 + 3 * static_cast<size_t>(components))
    return corrupt("JPEG frame header is truncated");
  if (least_scan_bytes(segment, marker, info.width, info.height, components) >
      static_cast<int64_t>(file_bytes))
    return claims_too_much("JPEG", info, file_bytes);
  return info;
}

}  // namespace

ImageLayout sniff_layout(Bytes bytes) {
  if (has_restart_index(bytes)) return ImageLayout::kRestart;
  if (starts_with(bytes, "\xff\xd8\xff")) return ImageLayout::kJpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n")) return ImageLayout::kPng;
  if (starts_with(bytes, kRawMagic)) return ImageLayout::kRaw;
  if (starts_with(bytes, coef::kMagic)) return ImageLayout::kCoefficients;
  if (is_webp(bytes)) return ImageLayout::kWebp;
  if (is_bmp(bytes)) return ImageLayout::kBmp;
  if (is_pnm(bytes)) return ImageLayout::kPnm;
  return ImageLayout::kNone;
}

Orientation exif_orientation(Bytes tiff) {
  if (tiff.size() < 8) return 1;
  const bool big = starts_with(tiff, std::string_view("MM\0*", 4));
  if (!big && !starts_with(tiff, std::string_view("II*\0", 4))) return 1;
  auto u16 = [&](size_t at) { return big ? load_be16(tiff, at) : uint32_t{load_le<uint16_t>(tiff, at)}; };
  auto u32 = [&](size_t at) { return big ? load_be32(tiff, at) : load_le<uint32_t>(tiff, at); };
  const size_t ifd = u32(4);
  if (ifd > tiff.size() - 2) return 1;
  const size_t entries = u16(ifd);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = ifd + 2 + 12 * i;
    if (at + 12 > tiff.size()) return 1;
    if (u16(at) != 0x0112) continue;
    const uint32_t type = u16(at + 2);  // SHORT by the standard; some files have LONG
    const uint32_t value = type == 3 ? u16(at + 8) : type == 4 ? u32(at + 8) : 1;
    return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation{1};
  }
  return 1;
}

Result<ImageInfo> probe_jpeg(Bytes bytes, uint64_t file_bytes) {
  Orientation orientation = 1;
  bool seen_exif = false;
  JpegSegments segments(bytes);
  for (JpegSegments::Segment segment; segments.next(&segment);) {
    if (segment.marker == JpegSegments::kStartOfScan)
      return corrupt("JPEG has no frame header before its data");
    if (is_frame_header(segment.marker)) {
      DLPIPE_ASSIGN_OR_RETURN(ImageInfo info,
                              parse_frame(segment.body, segment.marker, file_bytes, orientation));
      info.layout = sniff_layout(bytes);
      return info;
    }
    if (segment.marker == 0xe1 && !seen_exif && starts_with(segment.body, std::string_view("Exif\0\0", 6))) {
      orientation = exif_orientation(segment.body.subspan(6));
      seen_exif = true;
    }
  }
  return corrupt(segments.cut_short() ? "JPEG segment is truncated" : "JPEG ends before its frame header");
}

Result<ImageInfo> probe_png(Bytes bytes, uint64_t file_bytes) {
  constexpr size_t kFirstChunk = 8;
  if (bytes.size() < kFirstChunk + 25 || !starts_with(bytes.subspan(kFirstChunk + 4), "IHDR"))
    return corrupt("PNG is truncated or has no IHDR");
  ImageInfo info;
  info.layout = ImageLayout::kPng;
  const uint32_t width = load_be32(bytes, 16);
  const uint32_t height = load_be32(bytes, 20);
  if (width == 0 || height == 0 || width > 0x7fffffffu || height > 0x7fffffffu)
    return corrupt("PNG has an invalid width or height");
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  const int bits = load_u8(bytes, 24);
  const int color_type = load_u8(bytes, 25);
  info.channels = (color_type & 2) != 0 ? 3 : 1;  // bit 1: colour (palettes have it too)
  const int samples = color_type == 2 ? 3 : color_type == 4 ? 2 : color_type == 6 ? 4 : 1;
  info.has_alpha = color_type == 4 || color_type == 6;
  constexpr double kMostShrinking = 1032;  // of deflate: 258 bytes in two bits
  const double pixel_bytes = static_cast<double>(width) * height * samples * bits / 8;
  if (pixel_bytes > kMostShrinking * static_cast<double>(file_bytes))
    return claims_too_much("PNG", info, file_bytes);
  bool found_pixels = false;
  for (size_t at = kFirstChunk; at + 12 <= bytes.size();) {
    const size_t length = load_be32(bytes, at);
    found_pixels = starts_with(bytes.subspan(at + 4), "IDAT");
    if (found_pixels || length > bytes.size() - at - 12) break;
    if (starts_with(bytes.subspan(at + 4), "eXIf"))
      info.orientation = exif_orientation(bytes.subspan(at + 8, length));
    if (starts_with(bytes.subspan(at + 4), "tRNS")) info.has_alpha = true;
    at += 12 + length;
  }
  // EXIF after the pixels is ignored, because only the beginning of linked images is read.
  if (!found_pixels && bytes.size() < file_bytes) return corrupt("PNG is truncated before its pixels");
  return info;
}

static Result<ImageInfo> probe_coefficients(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const coef::Record record, coef::parse_record(bytes));
  const coef::Frame& frame = record.frame;
  ImageInfo info;
  info.layout = ImageLayout::kCoefficients;
  info.width = frame.width;
  info.height = frame.height;
  info.channels = frame.components == 1 ? 1 : 3;
  info.orientation = frame.orientation;
  return info;
}

Result<ImageInfo> probe_image(Bytes bytes) {
  switch (sniff_layout(bytes)) {
    case ImageLayout::kJpeg:
    case ImageLayout::kRestart:
      return probe_jpeg(bytes, bytes.size());
    case ImageLayout::kPng:
      return probe_png(bytes, bytes.size());
    case ImageLayout::kRaw:
      return probe_raw(bytes);
    case ImageLayout::kCoefficients:
      return probe_coefficients(bytes);
    case ImageLayout::kWebp:
      return probe_webp(bytes);
    case ImageLayout::kBmp:
      return probe_bmp(bytes);
    case ImageLayout::kPnm:
      return probe_pnm(bytes);
    case ImageLayout::kNone:
      break;
  }
  if (bytes.empty()) return Status(ErrorCode::kCorrupt, "[codec] the file is empty; download it again");
  if (const std::string_view format = foreign_format(bytes); !format.empty()) {
    return Status(ErrorCode::kUnsupported,
                  concat(kNoDecoder, format, " images; convert it to JPEG, PNG or WebP"));
  }
  return Status(ErrorCode::kCorrupt,
                "[codec] not a JPEG, PNG, WebP, BMP or PNM; convert or download the file again");
}

Result<ImageInfo> probe_begin(Bytes begin, uint64_t file_bytes) {
  if (begin.size() == file_bytes) return probe_image(begin);
  const ImageLayout layout = sniff_layout(begin);
  if (layout == ImageLayout::kJpeg || layout == ImageLayout::kRestart) return probe_jpeg(begin, file_bytes);
  if (layout == ImageLayout::kPng) return probe_png(begin, file_bytes);
  return corrupt("the image is truncated");
}

Status check_pixels(const ImageInfo& info, int64_t max_pixels) {
  if (int64_t{info.width} * info.height <= max_pixels) return {};
  return Status(ErrorCode::kUnsupported, concat("[codec] ", info.width, "x", info.height,
                                                " pixels are more than --max-pixels ", max_pixels));
}

struct ImageDecoder::Impl {
  explicit Impl(const DecodeLimits& limits_in)
      : limits(limits_in), jpeg(limits_in), png(limits_in), webp(limits_in), coefficients(limits_in) {}

  DecodeLimits limits;
  JpegDecoder jpeg;
  PngDecoder png;
  WebpDecoder webp;
  CoefDecoder coefficients;
  RestartDecoder restart;
  std::vector<uint8_t> unoriented;  // pixels before a rotation
};

ImageDecoder::ImageDecoder(DecodeLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;

static Status check_request(const Region& region, const ImageView& out) {
  const bool region_ok = region.x >= 0 && region.y >= 0 && region.width > 0 && region.height > 0;
  if (region_ok && out.width == region.width && out.height == region.height &&
      (out.channels == 1 || out.channels == 3))
    return {};
  return misuse("codec", "region ", region.width, "x", region.height, "+", region.x, "+", region.y,
                " does not fit an output of ", out.width, "x", out.height, "x", out.channels,
                "; use the same size for both and 1 or 3 channels");
}

Status ImageDecoder::decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  DLPIPE_RETURN_IF_ERROR(check_request(region, out));
  switch (sniff_layout(bytes)) {
    case ImageLayout::kJpeg:
      return impl_->jpeg.decode(bytes, region, out);
    case ImageLayout::kPng:
      return impl_->png.decode(bytes, region, out);
    case ImageLayout::kRaw:
      return decode_raw(bytes, region, out);
    case ImageLayout::kCoefficients:
      return impl_->coefficients.decode(bytes, region, out);
    case ImageLayout::kRestart:
      return impl_->restart.decode(bytes, region, out, impl_->jpeg);
    case ImageLayout::kWebp:
      return impl_->webp.decode(bytes, region, out);
    case ImageLayout::kBmp:
      return decode_bmp(bytes, region, out);
    case ImageLayout::kPnm:
      return decode_pnm(bytes, region, out);
    case ImageLayout::kNone:
      break;
  }
  return probe_image(bytes).status();  // its message names the probable format
}

Status ImageDecoder::decode_oriented(std::span<const std::byte> bytes, const ImageInfo& info,
                                     const Region& seen, const ImageView& out) {
  if (info.orientation <= 1) return decode(bytes, seen, out);
  DLPIPE_RETURN_IF_ERROR(check_request(seen, out));
  const bool swaps = swaps_axes(info.orientation);
  const int seen_width = swaps ? info.height : info.width;
  const int seen_height = swaps ? info.width : info.height;
  if (seen.x > seen_width - seen.width || seen.y > seen_height - seen.height)
    return misuse("codec", "the region is outside the oriented image");
  const Region stored = stored_region(seen, seen_width, seen_height, info.orientation);
  const size_t row_bytes = static_cast<size_t>(stored.width) * out.channels;
  try {
    impl_->unoriented.resize(row_bytes * stored.height);
  } catch (...) {
    return status_from_current_exception("codec");
  }
  const ImageView pixels{impl_->unoriented.data(), stored.width, stored.height, out.channels,
                         static_cast<ptrdiff_t>(row_bytes)};
  DLPIPE_RETURN_IF_ERROR(decode(bytes, stored, pixels));
  orient_image(pixels, info.orientation, out);
  return {};
}

size_t ImageDecoder::scratch_bytes() const {
  return impl_->jpeg.scratch_bytes() + impl_->png.scratch_bytes() + impl_->webp.scratch_bytes() +
         impl_->coefficients.scratch_bytes() + impl_->restart.scratch_bytes() + impl_->unoriented.capacity();
}

}  // namespace dlpipe::data
