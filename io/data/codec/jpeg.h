// JPEG through libjpeg-turbo's libjpeg interface: whole pictures or regions, decoded with the slow integer
// DCT and fancy upsampling, so that pixels equal Pillow's.
//
// A JpegDecoder belongs to one thread. It keeps one libjpeg object and one row of scratch between calls;
// libjpeg frees its per-image memory after each. No table of one picture is used for the next: a file without
// Huffman tables has the standard ones (ITU-T T.81, annex K), as frames of Motion JPEG do, and a file without
// a quantisation table is damaged.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

class JpegDecoder {
 public:
  explicit JpegDecoder(const DecodeLimits& limits);
  ~JpegDecoder();

  /// Decodes `region` of the stored picture into `out`. kCorrupt on any error of libjpeg, and
  /// on warnings that are about pixels (jpeg_warnings.h).
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dlpipe::data
