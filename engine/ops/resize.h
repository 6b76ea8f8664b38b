// resize: images of another height and width, as PyTorch's F.interpolate and ONNX's Resize make them. The function, and
// what its kernels share: where a row or column of the output comes from.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine {

/// What a pixel is made of: one of the input, or the two on either side, along each axis.
enum class ResizeMode : uint8_t { kNearest, kLinear };
constexpr std::array<std::string_view, 2> attr_names(ResizeMode) {
  return {"nearest", "linear"};
}

/// Which place of the input an output pixel stands for, along an axis; `scale` is output over input.
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,  // (i + 0.5) / scale - 0.5: middles of pixels. PyTorch's align_corners=False, nearest-exact
  kPytorchHalfPixel,    // so, but 0 where the output is one pixel long
  kHalfPixelSymmetric,  // so, but the middles of both are one where scale isn't output over input
  kAsymmetric,    // i / scale. PyTorch's nearest; its f32 is a pixel short now and then (2 pixels to 82)
  kAlignCorners,  // i * (in - 1) / (out - 1)
};
constexpr std::array<std::string_view, 5> attr_names(ResizeCoordinates) {
  return {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"};
}

/// Which pixel is the nearest: of a place between two, and right in the middle.
enum class ResizeRounding : uint8_t { kFloor, kCeil, kPreferFloor, kPreferCeil };
constexpr std::array<std::string_view, 4> attr_names(ResizeRounding) {
  return {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
}

struct ResizeAttrs {
  std::array<int, 2> size = {1, 1};  // height, width of the output
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kAsymmetric;
  ResizeRounding rounding = ResizeRounding::kFloor;  // of kNearest
  // What places are computed with where that isn't output over input: 7 pixels by 1.5 are 10. 0: output over input. Corners
  // are those of the output, whatever the scale is.
  double scale_height = 0;
  double scale_width = 0;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("size", self.size);
    visit("mode", self.mode);
    visit("coordinates", self.coordinates);
    visit("rounding", self.rounding);
    visit("scale_height", self.scale_height);
    visit("scale_width", self.scale_width);
  }
};

/// x [N,H,W,C] -> [N,size,C]. Without antialiasing: a smaller output leaves pixels out.
Tensor resize(const Tensor& x, const ResizeAttrs& attrs);

/// Pixels of the input that an output pixel is made of, along an axis: `first`, and as much as `share` of `second`.
struct ResizePlace {
  int first;
  int second;
  double share;
};

/// The places of one axis, computed in f64. (i + shift) * numerator / denominator is rounded once while the products are
/// below 2^53, so that a place that is a pixel's, or the middle of two, is so to the bit. By a scale that is given it is
/// rounded to f32, in which files hold scales: 3 by 0.6 is 5, as in ONNX Runtime, and not 4.9999998.
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

  /// Neither first nor second falls where i grows.
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
  /// The first output pixel whose `second` is at least `pixel`: it and those up to after(pixel) are made of it.
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

/// Of rows (axis 0) or columns (axis 1) of an input that passed the op's shape rule.
ResizePlaces resize_places(const Shape& x, const ResizeAttrs& attrs, int axis);

}  // namespace dlpipe::engine
