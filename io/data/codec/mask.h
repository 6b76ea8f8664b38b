// Masks: pictures of class indices, one byte per pixel. At rest a PNG, grey or with a palette, of at most 8 bits, or raw pixels
// of one channel. A palette's colours and a grey file's bit depth play no part: a pixel's value is the number in the file.
//
// A MaskDecoder belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/png.h"

namespace dlpipe::data {

/// Reads the header alone. kUnsupported says why a picture is no mask.
Result<ImageInfo> probe_mask(std::span<const std::byte> bytes);
/// kCorrupt where the mask hasn't the size of its picture as seen.
Status check_mask_size(const ImageInfo& mask, int width, int height);

class MaskDecoder {
 public:
  explicit MaskDecoder(const DecodeLimits& limits = {})
      : limits_(limits), png_(limits, PngDecoder::Values::kIndices) {}
  /// The whole mask, in memory of this object until the next call, or, of raw pixels, in `bytes` themselves; no bytes: a mask
  /// of zero size.
  Result<ConstImageView> decode(std::span<const std::byte> bytes);
  size_t scratch_bytes() const { return pixels_.capacity() + png_.scratch_bytes(); }

 private:
  DecodeLimits limits_;
  PngDecoder png_;
  std::vector<uint8_t> pixels_;
};

}  // namespace dlpipe::data
