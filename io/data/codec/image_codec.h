// Decoding images at rest: JPEG, PNG, WebP, BMP, PNM and raw pixels, whole or only a region.
//
// An ImageDecoder belongs to one thread and keeps its scratch between calls; it answers errors as values and
// never throws or exits. Every layout gives the same pixels, bit for bit, for a region as for the whole
// picture. Of half of all damaged JPEGs libjpeg only *warns*: a warning counts as damage, but for those that leave
// every pixel as it is (jpeg_warnings.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_layout.h"

namespace dlpipe::data {

/// How the message about a picture of a known but foreign format begins; the format's name follows.
inline constexpr std::string_view kNoDecoder = "[codec] no decoder for ";

struct ImageInfo {
  ImageLayout layout = ImageLayout::kNone;
  int width = 0;     // as stored
  int height = 0;    // as stored
  int channels = 0;  // as decoded: 1 or 3
  Orientation orientation = 1;
  bool has_alpha = false;  // PNG and WebP: some pixels may be transparent
};

struct DecodeLimits {
  int64_t max_pixels = 178'956'970;  // as Pillow's decompression-bomb limit
  int max_scans = 100;               // of a progressive JPEG
  // Whole-picture memory of one decode (a progressive JPEG's coefficients, a PNG's rows).
  int64_t max_memory_bytes = int64_t{1} << 30;
  // What shines through transparent pixels, red, green, blue; nothing: pixels keep the colour that is stored.
  std::optional<std::array<uint8_t, 3>> background = {};
};

/// Reads the header alone. kCorrupt / kUnsupported say why; a size that so few bytes can't hold is kCorrupt.
/// `bytes` may hold anything.
Result<ImageInfo> probe_image(std::span<const std::byte> bytes);
/// The same, given the first bytes of a file of `file_bytes`: also kCorrupt where these are too few to tell.
Result<ImageInfo> probe_begin(std::span<const std::byte> begin, uint64_t file_bytes);
/// kUnsupported for more pixels than `max_pixels`. Comes before the pixels' memory is asked for.
Status check_pixels(const ImageInfo& info, int64_t max_pixels);

class ImageDecoder {
 public:
  explicit ImageDecoder(DecodeLimits limits = {});
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;

  /// Decodes `region`, given in the *stored* (unoriented) picture, into `out` (u8, HWC, region's size).
  /// out.channels 3 gives RGB whatever is stored (grey is repeated, CMYK converted), 1 gives grey.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  /// The same with `seen` in the oriented picture: maps it back, decodes, orients.
  Status decode_oriented(std::span<const std::byte> bytes, const ImageInfo& info, const Region& seen,
                         const ImageView& out);
  /// Bytes of scratch held between calls.
  size_t scratch_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Baseline JPEG (quality 1..100, 4:2:0 unless subsampling is false) of a 1- or 3-channel image.
Result<std::vector<std::byte>> encode_jpeg(const ConstImageView& image, int quality, bool subsample = true);
Result<std::vector<std::byte>> encode_png(const ConstImageView& image);

}  // namespace dlpipe::data
