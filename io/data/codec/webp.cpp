#include "io/data/codec/webp.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/pixels.h"

namespace dlpipe::data {

namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kMostKeptPixels = 32u << 20;

bool has_at(Bytes bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

const uint8_t* data_of(Bytes bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

Status failed(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return Status(ErrorCode::kOutOfMemory, "[codec] WebP: out of memory");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return Status(ErrorCode::kUnsupported,
                    "[codec] libwebp can't read this kind of WebP; convert it to PNG");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return Status(ErrorCode::kCorrupt, "[codec] corrupt WebP: the file ends too early");
    default:
      return Status(ErrorCode::kCorrupt, "[codec] corrupt WebP: libwebp can't decode it");
  }
}

// EXIF is in a chunk after the image, as TIFF or in the form of JPEG's APP1.
Orientation orientation_of(Bytes bytes) {
  constexpr size_t kFirstChunk = 12;
  for (size_t at = kFirstChunk; at + 8 <= bytes.size();) {
    const size_t size = load_le<uint32_t>(bytes, at + 4);
    if (size > bytes.size() - at - 8) return 1;
    if (has_at(bytes, at, "EXIF")) {
      const Bytes exif = bytes.subspan(at + 8, size);
      return exif_orientation(has_at(exif, 0, std::string_view("Exif\0\0", 6)) ? exif.subspan(6) : exif);
    }
    at += 8 + size + size % 2;
  }
  return 1;
}

Result<WebPBitstreamFeatures> features_of(Bytes bytes) {
  if (bytes.size() < 16 || uint64_t{load_le<uint32_t>(bytes, 4)} + 8 > bytes.size())
    return Status(ErrorCode::kCorrupt, "[codec] corrupt WebP: the file ends too early");
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  if (code != VP8_STATUS_OK) return failed(code);
  return features;
}

/// The memory that libwebp uses for the whole image, whichever part is requested: lossless pixels have four bytes, and alpha
/// may be coded in the same way. For other lossy images it keeps only some rows.
int64_t bytes_in_libwebp(const WebPBitstreamFeatures& features) {
  constexpr int kLossy = 1;
  if (features.format == kLossy && features.has_alpha == 0) return 0;
  return int64_t{4} * features.width * features.height;
}

}  // namespace

bool is_webp(Bytes bytes) {
  return has_at(bytes, 0, "RIFF") && has_at(bytes, 8, "WEBP");
}

Result<ImageInfo> probe_webp(Bytes bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, features_of(bytes));
  if (features.has_animation != 0)
    return Status(ErrorCode::kUnsupported, "[codec] animated WebP is not supported; extract a frame");
  ImageInfo info;
  info.layout = ImageLayout::kWebp;
  info.width = features.width;
  info.height = features.height;
  info.channels = 3;
  info.has_alpha = features.has_alpha != 0;
  info.orientation = orientation_of(bytes);
  return info;
}

Status WebpDecoder::decode(Bytes bytes, const Region& region, const ImageView& out) {
  Status status = decode_region(bytes, region, out);
  if (pixels_.capacity() > kMostKeptPixels) pixels_ = std::vector<uint8_t>();  // few images need so much
  return status;
}

Status WebpDecoder::decode_region(Bytes bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_webp(bytes));
  DLPIPE_RETURN_IF_ERROR(check_pixels(info, limits_.max_pixels));
  if (region.x > info.width - region.width || region.y > info.height - region.height)
    return misuse("codec", "the region is outside the image");
  // libwebp crops at even positions, and its upsampling reads neighbours: two more pixels are decoded on each side and then
  // trimmed.
  constexpr int kMargin = 2;
  const int left = std::max(0, region.x - kMargin) & ~1;
  const int top = std::max(0, region.y - kMargin) & ~1;
  const int right = std::min(info.width, region.x + region.width + kMargin);
  const int bottom = std::min(info.height, region.y + region.height + kMargin);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    return Status(ErrorCode::kUnsupported, "[codec] the version of libwebp does not match its headers");
  config.options.use_cropping = left > 0 || top > 0 || right < info.width || bottom < info.height ? 1 : 0;
  config.options.crop_left = left;
  config.options.crop_top = top;
  config.options.crop_width = right - left;
  config.options.crop_height = bottom - top;
  const int channels = info.has_alpha && limits_.background ? 4 : 3;
  const size_t row_bytes = static_cast<size_t>(channels) * static_cast<size_t>(right - left);
  const size_t size = row_bytes * static_cast<size_t>(bottom - top);
  DLPIPE_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, features_of(bytes));
  if (bytes_in_libwebp(features) + static_cast<int64_t>(size) > limits_.max_memory_bytes)
    return Status(ErrorCode::kUnsupported, "[codec] the WebP exceeds the decoder's memory limit");
  try {
    pixels_.resize(size);
  } catch (...) {
    return status_from_current_exception("codec");
  }
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels_.data();
  config.output.u.RGBA.stride = static_cast<int>(row_bytes);
  config.output.u.RGBA.size = pixels_.size();
  const VP8StatusCode code = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) return failed(code);
  for (int y = 0; y < region.height; ++y) {
    const uint8_t* const row = pixels_.data() + row_bytes * static_cast<size_t>(region.y - top + y);
    const uint8_t* const from = row + ptrdiff_t{channels} * (region.x - left);
    if (channels == 4)
      composite_row(from, channels, out.row(y), out.channels, region.width, *limits_.background);
    else
      convert_row(from, channels, out.row(y), out.channels, region.width);
  }
  return {};
}

}  // namespace dlpipe::data
