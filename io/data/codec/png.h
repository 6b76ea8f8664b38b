// PNG through libpng: whole pictures or regions. 16-bit samples keep their upper byte, palettes are looked up
// and alpha is dropped, as Pillow's convert("RGB") does.
// A PngDecoder belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

class PngDecoder {
 public:
  /// kIndices: of files of one channel, the numbers as they stand: a palette's indices, grey values of 1, 2 and 4 bits.
  enum class Values : uint8_t { kColors, kIndices };
  explicit PngDecoder(const DecodeLimits& limits, Values values = Values::kColors)
      : limits_(limits), values_(values) {}

  /// kCorrupt on libpng's errors and on its warnings about pixel data; warnings about metadata (colour
  /// profiles, text) don't count.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const { return row_.capacity(); }

 private:
  DecodeLimits limits_;
  Values values_;
  std::vector<uint8_t> row_;  // as libpng gives it, and for interlaced files as it leaves
};

}  // namespace dlpipe::data
