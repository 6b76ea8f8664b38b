// WebP through libwebp, lossy and lossless: whole images or regions, with libwebp's fancy upsampling, so that pixels equal
// Pillow's. Alpha is dropped, as Pillow's convert("RGB") does; animations are not supported. A WebpDecoder belongs to one
// thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

bool is_webp(std::span<const std::byte> bytes);
Result<ImageInfo> probe_webp(std::span<const std::byte> bytes);

class WebpDecoder {
 public:
  explicit WebpDecoder(const DecodeLimits& limits) : limits_(limits) {}

  /// kUnsupported if decoding would need more than the memory limit.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const { return pixels_.capacity(); }

 private:
  Status decode_region(std::span<const std::byte> bytes, const Region& region, const ImageView& out);

  DecodeLimits limits_;
  std::vector<uint8_t> pixels_;
};

}  // namespace dlpipe::data
