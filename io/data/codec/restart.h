// Restart-indexed JPEG: a standard JPEG with restart markers every few MCUs and, in an APP11 segment after SOI, the start of
// each interval (FORMAT.md, "Restart index"). A region is decoded from only its own intervals.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "io/data/codec/jpeg.h"

namespace dlpipe::data {

/// The same coefficients as `jpeg`, losslessly, with its APPn and COM segments. kUnsupported says why an image can't be
/// converted. Thread-safe.
Result<std::vector<std::byte>> encode_restart(std::span<const std::byte> jpeg,
                                              const DecodeLimits& limits = {});

/// Whether the index is present; the rest is not checked.
bool has_restart_index(std::span<const std::byte> bytes);

/// Belongs to one thread; keeps one small JPEG of scratch between calls.
class RestartDecoder {
 public:
  /// Decodes `region` of the stored image into `out`, with the same pixels as decoding the whole JPEG. kCorrupt if the index or
  /// the data are corrupt. `bytes` may hold anything.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out,
                JpegDecoder& jpeg);
  size_t scratch_bytes() const { return spliced_.capacity(); }

 private:
  std::vector<std::byte> spliced_;
};

}  // namespace dlpipe::data
