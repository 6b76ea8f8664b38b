// JPEG through libjpeg-turbo's libjpeg interface: encode_jpeg (image_codec.h), whole images or regions, decoded with the slow integer
// DCT and fancy upsampling, so that pixels equal Pillow's.
//
// A JpegDecoder belongs to one thread. It keeps one libjpeg object and one row of scratch between calls; libjpeg frees its
// per-image memory after each. Tables of one image are never used for the next: a file without Huffman tables uses the standard
// ones (ITU-T T.81, annex K), as frames of Motion JPEG do, and a file without a quantisation table is corrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

class JpegDecoder {
 public:
  explicit JpegDecoder(const DecodeLimits& limits);
  ~JpegDecoder();

  /// Decodes `region` of the stored image into `out`. kCorrupt on any error of libjpeg and on warnings about pixels
  /// (keeps_pixels).
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// Iterates over the segments of a JPEG up to its first scan's data, as libjpeg finds them, skipping garbage and fill bytes
/// between them. `bytes` may hold anything.
class JpegSegments {
 public:
  static constexpr uint32_t kStartOfScan = 0xda;

  struct Segment {
    uint32_t marker = 0;
    size_t begin = 0;  // of its marker, 0xff
    size_t end = 0;
    std::span<const std::byte> body;  // after the length
    bool adjoins = false;             // directly follows the one before, or the file's start
  };

  explicit JpegSegments(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The next one; the first scan's header is the last. False at the end of the file or image, and if a segment claims more
  /// bytes than there are.
  bool next(Segment* segment);
  bool cut_short() const { return cut_short_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 2;  // after SOI
  bool done_ = false;
  bool cut_short_ = false;
};

/// libjpeg warns and continues both if a header has an unusual value and if bits of the image are missing; only the second kind
/// leaves undefined pixels. True for a warning that does not affect pixels: an unknown revision of JFIF or transform of
/// Adobe's, limits of a sequential scan that libjpeg does not use, and extra bytes between segments or after a complete scan.
/// All others are about bits that are wrong or missing.
bool keeps_pixels(int libjpeg_message_code);

}  // namespace dlpipe::data
