// What the kernels of resize (dlpipe/ops.h) share: the input positions of an output row or column.
#pragma once

#include <cmath>
#include <cstdint>

#include "dlpipe/ops.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

/// The input pixels of an output pixel along an axis: `first` with weight 1 - share, and `second` with weight `share`.
struct ResizePlace {
  int first;
  int second;
  double share;
};

/// The places of one axis, computed in f64. (i + shift) * numerator / denominator is rounded once while the products are
/// below 2^53, so that positions at a pixel, or exactly between two, are exact. With a given scale the position is rounded to
/// f32, because files store scales in f32: 3 / 0.6 is 5, as in ONNX Runtime, and not 4.9999998.
struct ResizePlaces {
  int in = 1;
  int out = 1;
  double shift = 0;
  double numerator = 1;
  double denominator = 1;
  double offset = 0;
  bool is_by_scale = false;
  ResizeMode mode = ResizeMode::kNearest;
  ResizeRounding rounding = ResizeRounding::kFloor;

  /// Neither first nor second decreases when i increases.
  DLPIPE_FORMULA ResizePlace place(int i) const {
    double at = (i + shift) * numerator / denominator;
    if (is_by_scale) at = static_cast<float>(at);
    at += offset;
    if (mode == ResizeMode::kNearest) {
      if (rounding == ResizeRounding::kPreferFloor) at -= 0.5;
      if (rounding == ResizeRounding::kPreferCeil) at += 0.5;
      const bool is_floor = rounding == ResizeRounding::kFloor || rounding == ResizeRounding::kPreferCeil;
      const int pixel = static_cast<int>(inside(is_floor ? floor(at) : ceil(at)));
      return {pixel, pixel, 0};
    }
    at = inside(at);
    const int first = static_cast<int>(at);
    return {first, first + 1 < in ? first + 1 : first, at - first};
  }
  /// The first output pixel with `second` at least `pixel`. Pixels from it up to after(pixel) are computed from `pixel`.
  DLPIPE_FORMULA int from(int pixel) const {
    return first_where([=](const ResizePlace& one) { return one.second >= pixel; });
  }
  DLPIPE_FORMULA int after(int pixel) const {
    return first_where([=](const ResizePlace& one) { return one.first > pixel; });
  }

 private:
  DLPIPE_FORMULA double inside(double at) const {
    return !(at > 0) ? 0 : at > in - 1 ? in - 1 : at;
  }  // NaN: 0
  template <class Is>
  DLPIPE_FORMULA int first_where(const Is& is) const {
    int low = 0, high = out;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (is(place(middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/// The positions of rows (axis 0) or columns (axis 1), for an input that passed the op's shape rule.
ResizePlaces resize_places(const Shape& x, const ResizeAttrs& attrs, int axis);

}  // namespace dlpipe::engine
