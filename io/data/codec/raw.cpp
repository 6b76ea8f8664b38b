#include "dlpipe/io/data/codec/raw.h"

#include <cstring>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/pixels.h"

namespace dlpipe::data {

// 0 magic (8 bytes), 8 u32 width, 12 u32 height, 16 u32 channels, 20 pixels.
Result<ImageInfo> probe_raw(std::span<const std::byte> bytes) {
  if (bytes.size() < kRawHeaderBytes)
    return Status(ErrorCode::kCorrupt, "[codec] raw image is cut short; the record is damaged");
  const auto width = load_le<uint32_t>(bytes, 8);
  const auto height = load_le<uint32_t>(bytes, 12);
  const auto channels = load_le<uint32_t>(bytes, 16);
  const bool has_size = width >= 1 && width <= 0x7fffffffu && height >= 1 && height <= 0x7fffffffu;
  if (!has_size || (channels != 1 && channels != 3)) {
    return Status(ErrorCode::kCorrupt, concat("[codec] raw image header says ", width, "x", height, "x",
                                              channels, ", which no picture has; the record is damaged"));
  }
  // width * height fits 62 bits, so the product with 3 doesn't wrap.
  if (uint64_t{width} * height * channels != bytes.size() - kRawHeaderBytes) {
    return Status(ErrorCode::kCorrupt,
                  concat("[codec] raw image header says ", width, "x", height, "x", channels, ", but ",
                         bytes.size() - kRawHeaderBytes, " bytes follow; the record is damaged"));
  }
  ImageInfo info;
  info.layout = ImageLayout::kRaw;
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  info.channels = static_cast<int>(channels);
  return info;
}

Status decode_raw(std::span<const std::byte> bytes, const Region& region, const ImageView& out) {
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_raw(bytes));
  if (region.x > info.width - region.width || region.y > info.height - region.height)
    return misuse("codec", "region outside the raw image");
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data()) + kRawHeaderBytes;
  for (int y = 0; y < region.height; ++y) {
    const size_t at = (static_cast<size_t>(region.y + y) * info.width + region.x) * info.channels;
    convert_row(pixels + at, info.channels, out.row(y), out.channels, region.width);
  }
  return {};
}

std::vector<std::byte> encode_raw(const ConstImageView& image) {
  const size_t row_bytes = static_cast<size_t>(image.width) * image.channels;
  std::vector<std::byte> bytes(kRawHeaderBytes + row_bytes * image.height);
  std::memcpy(bytes.data(), kRawMagic.data(), kRawMagic.size());
  store_le(bytes.data() + 8, static_cast<uint32_t>(image.width));
  store_le(bytes.data() + 12, static_cast<uint32_t>(image.height));
  store_le(bytes.data() + 16, static_cast<uint32_t>(image.channels));
  for (int y = 0; y < image.height; ++y)
    std::memcpy(bytes.data() + kRawHeaderBytes + row_bytes * y, image.row(y), row_bytes);
  return bytes;
}

}  // namespace dlpipe::data
