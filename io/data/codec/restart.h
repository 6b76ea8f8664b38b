// Restart-indexed JPEG: a standard JPEG with restart markers every few MCUs and, in an APP11 segment behind
// SOI, where each interval begins (FORMAT.md, "Restart index"). A region is decoded from its own intervals
// alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/jpeg.h"

namespace dlpipe::data {

/// The same coefficients as `jpeg`, losslessly, with its APPn and COM segments. kUnsupported says why a
/// picture has to stay as it is. Thread-safe.
Result<std::vector<std::byte>> encode_restart(std::span<const std::byte> jpeg,
                                              const DecodeLimits& limits = {});

/// Whether the index is there; says nothing about what follows.
bool has_restart_index(std::span<const std::byte> bytes);

/// Belongs to one thread; keeps one small JPEG of scratch between calls.
class RestartDecoder {
 public:
  /// `region` of the stored picture into `out`, pixels as `jpeg` decodes the whole. kCorrupt when the index
  /// or the data are damaged. `bytes` may hold anything.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out,
                JpegDecoder& jpeg);
  size_t scratch_bytes() const { return spliced_.capacity(); }

 private:
  std::vector<std::byte> spliced_;
};

}  // namespace dlpipe::data
