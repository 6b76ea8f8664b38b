// The stage "decoder": the pixels of the region that the plan needs, and no others.
//
// An object belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

class RegionDecoder {
 public:
  explicit RegionDecoder(const Setup& setup);

  /// chain.source_region of `image`, the picture of `record`. The answer lies in this object's scratch, or in the record itself
  /// where raw pixels can be used as they stand, or is `out` where the chain has nothing left to do.
  Result<ConstImageView> decode(const PlannedRecord& record, const augment::ChainPlan& chain,
                                std::span<const std::byte> image, const ImageView& out);
  size_t scratch_bytes() const { return decoder_.scratch_bytes() + pixels_.capacity(); }

 private:
  int channels_;
  int64_t max_pixels_;
  data::ImageDecoder decoder_;
  std::vector<uint8_t> pixels_;
};

}  // namespace dlpipe::pipeline
