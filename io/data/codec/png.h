// PNG: whole pictures or regions. 16-bit samples keep their upper byte, palettes are looked up and alpha is dropped, as Pillow's
// convert("RGB") does. libpng reads what stands before the pixels, libdeflate decompresses them: libpng's own way takes twice as
// long (decision 057). A PngDecoder belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/png_data.h"

namespace dlpipe::data {

class PngDecoder {
 public:
  /// kIndices: of files of one channel, the numbers as they stand: a palette's indices, grey values of 1, 2 and 4 bits.
  enum class Values : uint8_t { kColors, kIndices };
  explicit PngDecoder(const DecodeLimits& limits, Values values = Values::kColors)
      : limits_(limits), values_(values) {}

  /// kCorrupt for whatever is wrong with the picture's data, chunks behind the part that `region` needs with it; damage of
  /// metadata (colour profiles, text) doesn't count.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const { return data_.scratch_bytes() + zeros_.capacity() + scratch_.capacity(); }

  struct Header;  // what stands before the pixels; for png.cpp alone

 private:
  Status decode_rows(std::span<const std::byte> bytes, const Header& header, const Region& region,
                     const ImageView& out);

  DecodeLimits limits_;
  Values values_;
  PngData data_;
  std::vector<uint8_t> zeros_;  // what the first row has above it
  std::vector<uint8_t> scratch_;
};

}  // namespace dlpipe::data
