// What the flips share: everything but when. Internal to augment/ops.
#pragma once

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

/// Left and right swapped where plan says so. The chain folds it into the op before it, which then writes
/// mirrored; standing first it copies. Their records say can_mirror and is_mirror.
class MirrorOp : public ResizeOp {
 public:
  ImageSize output(const ImageSize& in) const override { return in; }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    copy_image(in, out, !draw.mirror);
    return {};
  }
  PlannedResize as_resize(const OpDraw& draw) const override {
    const Region& all = draw.region;
    return PlannedResize{whole_resize(all.width, all.height, all.width, all.height), !draw.mirror};
  }

 protected:
  static Status draw_mirror(bool active, const ImageSize& in, OpDraw& draw) {
    draw.active = active;
    draw.region = {0, 0, in.width, in.height};
    draw.out = in;
    return {};
  }
};

}  // namespace dlpipe::augment
