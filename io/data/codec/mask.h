// Masks: images of class indices, one byte per pixel. Stored as a PNG, grey or with a palette, of at most 8 bits, or as raw
// pixels of one channel. A palette's colours and a grey file's bit depth do not matter: a pixel's value is the number in the
// file.
//
// A MaskDecoder belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "io/data/codec/png.h"

namespace dlpipe::data {

/// Reads only the header. kUnsupported says why an image is not a mask.
Result<ImageInfo> probe_mask(std::span<const std::byte> bytes);
/// kCorrupt if the mask's size differs from its oriented image.
Status check_mask_size(const ImageInfo& mask, int width, int height);

class MaskDecoder {
 public:
  explicit MaskDecoder(const DecodeLimits& limits = {})
      : limits_(limits), png_(limits, PngDecoder::Values::kIndices) {}
  /// The whole mask, in memory of this object until the next call, or in `bytes` itself for raw pixels. No bytes: a mask of
  /// size zero.
  Result<ConstImageView> decode(std::span<const std::byte> bytes);
  size_t scratch_bytes() const { return pixels_.capacity() + png_.scratch_bytes(); }

 private:
  DecodeLimits limits_;
  PngDecoder png_;
  std::vector<uint8_t> pixels_;
};

}  // namespace dlpipe::data
