// Regions of images from coefficient records: only the tiles that a region touches are read, and pixels are
// libjpeg-turbo's (accurate integer transform, fancy upsampling), bit for bit.
//
// A CoefDecoder belongs to one thread and keeps its scratch between calls: two MCU rows of samples, as wide
// as the region.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

class CoefDecoder {
 public:
  explicit CoefDecoder(const DecodeLimits& limits);
  ~CoefDecoder();

  /// Decodes `region` of the stored image into `out` (1 or 3 channels, region's size). kCorrupt when the
  /// record is corrupt. `bytes` may hold anything.
  Status decode(std::span<const std::byte> bytes, const Region& region, const ImageView& out);
  size_t scratch_bytes() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dlpipe::data
