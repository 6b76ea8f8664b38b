// Ops whose output is put together from several pictures of the dataset (mosaic). What stands before such an op in the chain
// is planned and run for every picture by itself, with random numbers of its own; what stands behind it is planned once, for
// the whole. Each picture is asked only for the part that is read in the end, so regions are decoded as ever.
//
// The sample's own picture is the first; the pipeline draws the others (pipeline/plan/sampler.h). ChainPlan::pictures holds their
// plans, and Chain::apply_joined runs them.
#pragma once

#include <algorithm>
#include <cstdint>
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
  /// parts, which don't overlap (unless it pastes) and lie within draw.out.
  virtual Status place(std::span<const ImageSize> sizes, RandomStream& rng, OpDraw& draw,
                       std::span<JoinedPart> parts) const = 0;
  /// What no picture covers.
  virtual Pixel background() const = 0;

  Status apply(const OpDraw&, const ConstImageView&, const ImageView&, ChainScratch&) const final {
    return {ErrorCode::kInternal, "an op that joins pictures has none of its own"};
  }
  Movement movement(const OpDraw&) const final { return {}; }
};

/// Lays some objects of another picture over the sample's own, at the place that they have there. What is an object's follows
/// from its box, its class and the picture's mask (paste.h).
class PasteOp : public JoinOp {
 public:
  /// Sets chosen[i] to 1 where object i of the other picture is pasted.
  virtual void choose(RandomStream& rng, std::span<uint8_t> chosen) const = 0;
  /// The share of an object's pixels that must stay visible, else it is dropped.
  virtual double least_seen() const = 0;

  int others() const final { return 1; }
  Pixel background() const final { return {}; }
  Status place(std::span<const ImageSize> sizes, RandomStream&, OpDraw& draw,
               std::span<JoinedPart> parts) const final {
    draw.out = sizes[0];
    parts[0].from = {0, 0, sizes[0].width, sizes[0].height};
    parts[1].from = {0, 0, std::min(sizes[0].width, sizes[1].width),
                     std::min(sizes[0].height, sizes[1].height)};
    return {};
  }
};

}  // namespace dlpipe::augment
