#include "dlpipe/pipeline/stages/decoder.h"

#include "dlpipe/io/data/codec/raw.h"

namespace dlpipe::pipeline {

RegionDecoder::RegionDecoder(const Setup& setup)
    : channels_(setup.image_size.channels), decoder_({.max_pixels = setup.options.max_pixels}) {}

namespace {

data::ImageInfo info_of(const data::RecordHeader& header) {
  data::ImageInfo info;
  info.layout = header.layout;
  info.width = swaps_axes(header.orientation) ? header.height : header.width;
  info.height = swaps_axes(header.orientation) ? header.width : header.height;
  info.channels = header.channels;
  info.orientation = header.orientation;
  return info;
}

bool inside(const Region& region, const data::ImageInfo& info) {
  return region.x >= 0 && region.y >= 0 && region.x + region.width <= info.width &&
         region.y + region.height <= info.height;
}

}  // namespace

Result<ConstImageView> RegionDecoder::decode(const SamplePlan& plan, std::span<const std::byte> image,
                                             const ImageView& out) {
  const Region& region = plan.chain.source_region;
  if (plan.header.layout == data::ImageLayout::kRaw && plan.header.orientation <= 1) {
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_raw(image));
    if (info.channels == channels_ && inside(region, info)) {
      const ptrdiff_t stride = ptrdiff_t{info.width} * info.channels;
      const auto* first = reinterpret_cast<const uint8_t*>(image.data()) + data::kRawHeaderBytes;
      return ConstImageView(first + region.y * stride + ptrdiff_t{region.x} * info.channels, region.width,
                            region.height, info.channels, stride);
    }
  }
  ImageView pixels = out;
  if (!plan.chain.is_copy()) {
    const size_t row_bytes = static_cast<size_t>(region.width) * static_cast<size_t>(channels_);
    const size_t bytes = row_bytes * static_cast<size_t>(region.height);
    if (pixels_.size() < bytes) pixels_.resize(bytes);
    pixels = {pixels_.data(), region.width, region.height, channels_, static_cast<ptrdiff_t>(row_bytes)};
  }
  DLPIPE_RETURN_IF_ERROR(decoder_.decode_oriented(image, info_of(plan.header), region, pixels));
  return ConstImageView(pixels);
}

}  // namespace dlpipe::pipeline
