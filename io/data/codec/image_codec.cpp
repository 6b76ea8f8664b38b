#include "dlpipe/io/data/codec/image_codec.h"

#include <optional>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/bmp.h"
#include "dlpipe/io/data/codec/coef/decoder.h"
#include "dlpipe/io/data/codec/jpeg.h"
#include "dlpipe/io/data/codec/png.h"
#include "dlpipe/io/data/codec/pnm.h"
#include "dlpipe/io/data/codec/probe.h"
#include "dlpipe/io/data/codec/raw.h"
#include "dlpipe/io/data/codec/restart.h"
#include "dlpipe/io/data/codec/webp.h"

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
                "; give both the same size and 1 or 3 channels");
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
  return probe_image(bytes).status();  // which says what the bytes seem to be
}

Status ImageDecoder::decode_oriented(std::span<const std::byte> bytes, const ImageInfo& info,
                                     const Region& seen, const ImageView& out) {
  if (info.orientation <= 1) return decode(bytes, seen, out);
  DLPIPE_RETURN_IF_ERROR(check_request(seen, out));
  const bool swaps = swaps_axes(info.orientation);
  const int seen_width = swaps ? info.height : info.width;
  const int seen_height = swaps ? info.width : info.height;
  if (seen.x > seen_width - seen.width || seen.y > seen_height - seen.height)
    return misuse("codec", "region outside the oriented picture");
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
