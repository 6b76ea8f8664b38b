// Ops that turn or mirror the whole picture without changing a pixel, as an EXIF orientation does (base/image.h): the
// drawn orientation is values[0]. They need only the part of the input that is shown.
#pragma once

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/base/image.h"

namespace dlpipe::augment {

class OrientedOp : public Op {
 public:
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.window = needed;
    draw.region = stored_region(needed, draw.out.width, draw.out.height, orientation(draw));
    return true;
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    turn_image(in, orientation(draw), out);
    return {};
  }

  // The inverse of base/image.h's table.
  Movement movement(const OpDraw& draw) const override {
    const double w = draw.in.width;
    const double h = draw.in.height;
    switch (orientation(draw)) {
      case 2:
        return Movement::scaled(-1, w, 1, 0);
      case 3:
        return Movement::scaled(-1, w, -1, h);
      case 4:
        return Movement::scaled(1, 0, -1, h);
      case 5:
        return Movement(ProjectiveMap{0, 1, 0, 1, 0, 0, 0, 0});
      case 6:
        return Movement(ProjectiveMap{0, 1, 0, -1, 0, h, 0, 0});
      case 7:
        return Movement(ProjectiveMap{0, -1, w, -1, 0, h, 0, 0});
      case 8:
        return Movement(ProjectiveMap{0, -1, w, 1, 0, 0, 0, 0});
      default:
        return {};
    }
  }

 protected:
  static Orientation orientation(const OpDraw& draw) { return static_cast<Orientation>(draw.values[0]); }
  static void set_orientation(int orientation, OpDraw& draw) {
    draw.values[0] = static_cast<float>(orientation);
    draw.active = orientation != 1;
    draw.out = swaps_axes(static_cast<Orientation>(orientation))
                   ? ImageSize{draw.in.height, draw.in.width, draw.in.channels}
                   : draw.in;
  }
  /// The size out where axes may or may not be swapped.
  static ImageSize square_or_unknown(const ImageSize& in) {
    return in.width == in.height ? in : ImageSize{0, 0, in.channels};
  }
};

}  // namespace dlpipe::augment
