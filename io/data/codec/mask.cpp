#include "io/data/codec/mask.h"

#include "base/text.h"
#include "dlpipe/codec.h"
#include "io/data/codec/bitmaps.h"

namespace dlpipe::data {

namespace {

constexpr std::string_view kWanted =
    "; a mask must be a PNG of class numbers, grey or with a palette, with at most 8 bits";

Status no_mask(std::string_view what) {
  return Status(ErrorCode::kUnsupported, concat("[codec] the mask is ", what, kWanted));
}

}  // namespace

Result<ImageInfo> probe_mask(std::span<const std::byte> bytes) {
  const ImageLayout layout = sniff_layout(bytes);
  if (layout == ImageLayout::kRaw) {
    DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_raw(bytes));
    if (info.channels != 1) return no_mask("a raw image with three channels");
    return info;
  }
  if (layout != ImageLayout::kPng)
    return no_mask(layout == ImageLayout::kNone ? std::string("not an image")
                                                : concat("an image in format ", image_layout_name(layout)));
  DLPIPE_ASSIGN_OR_RETURN(ImageInfo info, probe_png(bytes, bytes.size()));
  // PNG, 11.2.2: the signature, length and type of IHDR are followed by width and height, the bit depth and the colour type.
  const auto depth = static_cast<uint8_t>(bytes[24]);
  const auto color_type = static_cast<uint8_t>(bytes[25]);
  constexpr uint8_t kGrey = 0;
  constexpr uint8_t kPalette = 3;
  if (color_type != kGrey && color_type != kPalette) return no_mask("a PNG with colours or transparency");
  if (depth > 8) return no_mask(concat("a PNG with ", int{depth}, " bits"));
  info.channels = 1;
  return info;
}

Status check_mask_size(const ImageInfo& mask, int width, int height) {
  if (mask.width == width && mask.height == height) return {};
  return Status(ErrorCode::kCorrupt, concat("the mask is ", mask.width, "x", mask.height,
                                            ", but its image is ", width, "x", height));
}

Result<ConstImageView> MaskDecoder::decode(std::span<const std::byte> bytes) {
  if (bytes.empty()) return ConstImageView();
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_mask(bytes));
  DLPIPE_RETURN_IF_ERROR(check_pixels(info, limits_.max_pixels));
  const size_t size = static_cast<size_t>(info.width) * static_cast<size_t>(info.height);
  if (info.layout == ImageLayout::kRaw) {
    return ConstImageView(reinterpret_cast<const uint8_t*>(bytes.data()) + kRawHeaderBytes, info.width,
                          info.height, 1, info.width);
  }
  if (pixels_.size() < size) pixels_.resize(size);
  const ImageView out{pixels_.data(), info.width, info.height, 1, info.width};
  DLPIPE_RETURN_IF_ERROR(png_.decode(bytes, {0, 0, info.width, info.height}, out));
  return ConstImageView(out);
}

}  // namespace dlpipe::data
