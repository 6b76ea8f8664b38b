// Ops whose output is put together from several pictures of the dataset (mosaic). What stands before such an op in the chain
// is planned and run for every picture by itself, with random numbers of its own; what stands behind it is planned once, for
// the whole. Each picture is asked only for the part that is read in the end, so regions are decoded as ever.
//
// The sample's own picture is the first; the pipeline draws the others (pipeline/sampler.h). ChainPlan::pictures holds their
// plans, and Chain::apply_joined runs them.
#pragma once

#include <span>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// Where a picture stands in the op's output.
struct JoinedPart {
  Region from;  // of the picture as it comes to the op; empty: it isn't seen
  int x = 0;    // where the upper left corner of `from` stands
  int y = 0;
};

class JoinOp : public Op {
 public:
  /// Pictures that it needs besides the sample's own.
  virtual int others() const = 0;
  /// `sizes` and `parts` are the pictures', the sample's own first. Draws where they stand; sets draw.out, draw.values and
  /// parts, which don't overlap and lie within draw.out.
  virtual Status place(std::span<const ImageSize> sizes, RandomStream& rng, OpDraw& draw,
                       std::span<JoinedPart> parts) const = 0;
  /// What no picture covers.
  virtual Pixel background() const = 0;

  Status apply(const OpDraw&, const ConstImageView&, const ImageView&, ChainScratch&) const final {
    return {ErrorCode::kInternal, "an op that joins pictures has none of its own"};
  }
  Movement movement(const OpDraw&) const final { return {}; }
};

}  // namespace dlpipe::augment
