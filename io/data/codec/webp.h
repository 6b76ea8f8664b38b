// WebP through libwebp, lossy and lossless: whole pictures or regions, with libwebp's fancy upsampling, so that pixels
// equal Pillow's. Alpha is dropped, as Pillow's convert("RGB") does; animations are not read. A WebpDecoder belongs to
// one thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

bool is_webp(std::span<const std::byte> bytes);
Result<ImageInfo> probe_webp(std::span<const std::byte> bytes);

class WebpDecoder {
 public:
  explicit WebpDecoder(const DecodeLimits& limits) : limits_(limits) {}

  /// kUnsupported where decoding would take more than the limit of memory.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const { return pixels_.capacity(); }

 private:
  Status decode_region(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

  DecodeLimits limits_;
  std::vector<uint8_t> pixels_;
};

}  // namespace dlpipe::data
