// The stage "augmenter": the op chain, whose last op writes straight into the slot.
//
// An object belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/pipeline/plan/plan.h"

namespace dlpipe::pipeline {

class Augmenter {
 public:
  explicit Augmenter(const augment::Chain& chain) : chain_(chain) {}

  /// `pixels` is the plan's region, `out` the sample's place in the slot; where they are the same memory the
  /// decoder has done everything already.
  Status apply(const SamplePlan& plan, const ConstImageView& pixels, const ImageView& out) {
    if (pixels.data == out.data) return {};
    return chain_.apply(plan.chain, pixels, out, scratch_);
  }
  /// The same of a joined plan.
  Status apply_joined(const SamplePlan& plan, augment::PictureSource& source, const ImageView& out) {
    return chain_.apply_joined(plan.chain, source, out, scratch_);
  }
  size_t scratch_bytes() const { return scratch_.bytes(); }

 private:
  const augment::Chain& chain_;
  augment::ChainScratch scratch_;
};

}  // namespace dlpipe::pipeline
