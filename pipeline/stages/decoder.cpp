#include "dlpipe/pipeline/stages/decoder.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/raw.h"

namespace dlpipe::pipeline {

RegionDecoder::RegionDecoder(const Setup& setup)
    : channels_(setup.image_size.channels),
      max_pixels_(setup.options.max_pixels),
      decoder_({.max_pixels = max_pixels_}) {}

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

Result<ConstImageView> RegionDecoder::decode(const PlannedRecord& record, const augment::ChainPlan& chain,
                                             std::span<const std::byte> image, const ImageView& out) {
  const Region& region = chain.source_region;
  const data::ImageInfo planned = info_of(record.header);
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(planned, max_pixels_));  // before their memory is asked for
  if (record.header.layout == data::ImageLayout::kRaw && record.header.orientation <= 1) {
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_raw(image));
    if (info.channels == channels_ && inside(region, info)) {
      const ptrdiff_t stride = ptrdiff_t{info.width} * info.channels;
      const auto* first = reinterpret_cast<const uint8_t*>(image.data()) + data::kRawHeaderBytes;
      return ConstImageView(first + region.y * stride + ptrdiff_t{region.x} * info.channels, region.width,
                            region.height, info.channels, stride);
    }
  }
  if (chain.is_copy() && (out.width != region.width || out.height != region.height))
    return misuse("loader", "the plan of sample ", record.sample, " gives ", region.width, "x", region.height,
                  " pixels for a slot of ", out.width, "x", out.height);
  ImageView pixels = out;
  if (!chain.is_copy()) {
    const size_t row_bytes = static_cast<size_t>(region.width) * static_cast<size_t>(channels_);
    const size_t bytes = row_bytes * static_cast<size_t>(region.height);
    augment::ChainScratch::grow(pixels_, bytes);
    pixels = {pixels_.data(), region.width, region.height, channels_, static_cast<ptrdiff_t>(row_bytes)};
  }
  const Status decoded = decoder_.decode_oriented(image, planned, region, pixels);
  if (decoded.code() == ErrorCode::kMisuse)  // the region is right for the row, so the row is wrong
    return Status(ErrorCode::kCorrupt, concat("[loader] the header table gives sample ", record.sample, " ",
                                              record.header.width, "x", record.header.height,
                                              " pixels, which its image doesn't have: ", decoded.message()));
  DLPIPE_RETURN_IF_ERROR(decoded);
  return ConstImageView(pixels);
}

}  // namespace dlpipe::pipeline
