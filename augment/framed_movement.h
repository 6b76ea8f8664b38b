// The movement of frames that show the picture's own pixels again: its border's, or the picture mirrored.
#pragma once

#include <algorithm>
#include <cmath>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/augment/movement.h"

namespace dlpipe::augment {

/// The picture lies at (left, top) of the output.
class FramedMovement final : public FreeMovement {
 public:
  FramedMovement(double left, double top, const ImageSize& in, bool reflects)
      : left_(left), top_(top), in_(in), reflects_(reflects) {}
  Place source(Place out) const override {
    return {seen(out.x - left_, in_.width), seen(out.y - top_, in_.height)};
  }
  Place target(Place in) const override { return {in.x + left_, in.y + top_}; }

 private:
  /// Mirrored at the middle of the border's pixels, which are not repeated.
  double seen(double at, int size) const {
    if (at >= 0 && at < size) return at;
    if (!reflects_ || size == 1) return std::clamp(at, 0.5, size - 0.5);
    const double last = size - 0.5;
    while (at < 0 || at >= size) at = at < 0 ? 1 - at : 2 * last - at;
    return at;
  }

  double left_;
  double top_;
  ImageSize in_;
  bool reflects_;
};

}  // namespace dlpipe::augment
