// PNG: encode_png (image_codec.h), and decoding of whole images or regions. 16-bit samples keep their upper byte, palettes are
// looked up and alpha is dropped, as Pillow's convert("RGB") does. libpng reads everything before the pixels, and libdeflate
// decompresses them, because libpng takes twice as long (decision 057).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

struct libdeflate_decompressor;

namespace dlpipe::data {

/// The data of a PNG's pixels: its IDAT chunks, decompressed at once. Keeps its memory between images, except for very large
/// ones; belongs to one thread.
class PngData {
 public:
  PngData();

  /// Joins the IDAT chunks, the first of which is at `at` in the file, and decompresses them to exactly `bytes` bytes. Checks
  /// their checksums and the zlib stream's; the file must continue to its end chunk. kCorrupt says what is wrong.
  Status read(std::span<const std::byte> file, size_t at, size_t bytes);
  /// The result of read(): each row, preceded by the number of its filter, which is to be undone in place.
  std::span<uint8_t> rows() { return rows_; }
  /// Frees memory that only few images need.
  void let_go();
  size_t scratch_bytes() const { return joined_.capacity() + rows_.capacity(); }

 private:
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const;
  };
  std::unique_ptr<libdeflate_decompressor, Free> decompressor_;
  std::vector<std::byte> joined_;  // of several chunks
  std::vector<uint8_t> rows_;
};

/// Undoes filter 0 to 4 (PNG, 9.2) of `row` in place. `above` is the row above without its filter, of zeros for the first row;
/// a pixel has 1, 2, 3, 4, 6 or 8 bytes, or 1 if several share a byte. False for an unknown filter.
bool undo_filter(int filter, std::span<uint8_t> row, const uint8_t* above, int pixel_bytes);

/// Belongs to one thread.
class PngDecoder {
 public:
  /// kIndices: for files with one channel, the numbers unchanged: a palette's indices, grey values of 1, 2 and 4 bits.
  enum class Values : uint8_t { kColors, kIndices };
  explicit PngDecoder(const DecodeLimits& limits, Values values = Values::kColors)
      : limits_(limits), values_(values) {}

  /// kCorrupt for any error in the image's data, also after the part that `region` needs; corrupt metadata (colour profiles,
  /// text) is ignored.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const { return data_.scratch_bytes() + zeros_.capacity() + scratch_.capacity(); }

  struct Header;  // what precedes the pixels; only for png.cpp

 private:
  Status decode_rows(std::span<const std::byte> bytes, const Header& header, const Region& region,
                     const ImageView& out);

  DecodeLimits limits_;
  Values values_;
  PngData data_;
  std::vector<uint8_t> zeros_;  // the row above the first one
  std::vector<uint8_t> scratch_;
};

}  // namespace dlpipe::data
