// Decoding stored images, whole or only a region: JPEG, PNG, WebP, BMP, PNM and raw pixels.
//
// Ownership: the caller owns bytes and pixels; an ImageDecoder owns its scratch memory and keeps it between calls. Threads: an
// ImageDecoder belongs to one thread; the functions are pure. Errors are values. Cost: probing only reads the header; a decoder
// allocates until its scratch has grown to the largest image.
//
// For every layout, decoding a region produces the same pixels, bit for bit, as decoding the whole image. For half of all
// corrupt JPEGs libjpeg only *warns*. A warning counts as an error, unless it is about bytes that no pixel depends on.
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

#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

/// How an image is stored in its record. The values are stored in files: append only.
enum class ImageLayout : uint8_t {
  kNone = 0,
  kJpeg = 1,
  kPng = 2,
  kRaw = 3,
  kCoefficients = 4,
  kRestart = 5,
  kWebp = 6,
  kBmp = 7,
  kPnm = 8
};
std::string_view image_layout_name(ImageLayout layout);

/// The beginning of the message about an image in a known but unsupported format; the format's name follows.
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
  int64_t max_pixels = 178'956'970;  // Pillow's decompression-bomb limit
  int max_scans = 100;               // of a progressive JPEG
  // Whole-image memory of one decode (a progressive JPEG's coefficients, a PNG's rows).
  int64_t max_memory_bytes = int64_t{1} << 30;
  // The background of transparent pixels, red, green, blue; nullopt: alpha is ignored and pixels keep their stored colour.
  std::optional<std::array<uint8_t, 3>> background = {};
};

// Headers, parsed without a codec: sizes, components and EXIF orientation. Corrupt bytes are safe: every offset is checked.
// Pure functions.

/// The layout according to the first bytes; kNone if they are not recognized.
ImageLayout sniff_layout(std::span<const std::byte> bytes);
/// `bytes` are the first ones of a file of `file_bytes`; kCorrupt if they are too few to tell.
Result<ImageInfo> probe_jpeg(std::span<const std::byte> bytes, uint64_t file_bytes);
Result<ImageInfo> probe_png(std::span<const std::byte> bytes, uint64_t file_bytes);
/// Orientation in a TIFF block (EXIF: CIPA DC-008, tag 0x0112 of IFD 0); 1 if it is missing or
/// invalid.
Orientation exif_orientation(std::span<const std::byte> tiff);

/// Reads only the header. Returns kCorrupt or kUnsupported with the reason; kCorrupt includes an image size that is
/// impossible for so few bytes. `bytes` may be corrupt.
Result<ImageInfo> probe_image(std::span<const std::byte> bytes);
/// The same, given the first bytes of a file of `file_bytes`; also kCorrupt if they are too few to tell.
Result<ImageInfo> probe_begin(std::span<const std::byte> begin, uint64_t file_bytes);
/// kUnsupported for more pixels than `max_pixels`. Call it before allocating memory for the pixels.
Status check_pixels(const ImageInfo& info, int64_t max_pixels);

class ImageDecoder {
 public:
  explicit ImageDecoder(DecodeLimits limits = {});
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;

  /// Decodes `region`, given in the *stored* (unoriented) image, into `out` (u8, HWC, region's size).
  /// out.channels is 3 for RGB (grey is repeated, CMYK is converted) or 1 for grey.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  /// The same with `seen`, a region of the oriented image: maps it to the stored image, decodes and orients.
  Status decode_oriented(std::span<const std::byte> bytes, const ImageInfo& info, const Region& seen,
                         const ImageView& out);
  /// Bytes of scratch held between calls.
  size_t scratch_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A baseline JPEG (quality 1..100, 4:2:0 unless `subsample` is false) of a 1- or 3-channel image.
Result<std::vector<std::byte>> encode_jpeg(const ConstImageView& image, int quality, bool subsample = true);
Result<std::vector<std::byte>> encode_png(const ConstImageView& image);
/// A header with the size, followed by the unchanged pixels: for sources of generated images.
std::vector<std::byte> encode_raw(const ConstImageView& image);

}  // namespace dlpipe::data
