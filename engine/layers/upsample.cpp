#include "dlpipe/engine/layers/upsample.h"

#include <cmath>
#include <limits>

#include "dlpipe/base/refuse.h"

namespace dlpipe::engine {

Upsample::Upsample(const UpsampleArguments& arguments) : size_(arguments.size), scale_(arguments.scale) {
  if (!size_ && !(scale_ > 0 && scale_ < std::numeric_limits<int>::max()))
    refuse("Upsample", "expected a scale above 0, got ", scale_);
  if (arguments.align_corners && arguments.mode != UpsampleMode::kBilinear)
    refuse("Upsample", "align_corners is of bilinear; leave it out");
  if (arguments.mode == UpsampleMode::kNearest) return;
  attrs_.coordinates =
      arguments.align_corners ? ResizeCoordinates::kAlignCorners : ResizeCoordinates::kHalfPixel;
  attrs_.rounding = ResizeRounding::kPreferCeil;
  if (arguments.mode == UpsampleMode::kBilinear) {
    attrs_.mode = ResizeMode::kLinear;
    attrs_.rounding = ResizeRounding::kFloor;
  }
}

Tensor Upsample::forward(const Tensor& x) {
  if (size_) {
    attrs_.size = *size_;
    return resize(x, attrs_);
  }
  // Corners are those of the output, whatever the scale was.
  const bool has_corners = attrs_.coordinates == ResizeCoordinates::kAlignCorners;
  const auto scaled = [&](int axis, int& size, double& scale) {
    const int64_t in = axis < x.rank() ? x.size(axis) : 1;
    const double out = std::floor(static_cast<double>(in) * scale_);
    if (out > std::numeric_limits<int>::max())
      refuse("Upsample", "impossible sizes: ", scale_, " times ", in);
    size = static_cast<int>(out);
    scale = has_corners || out / static_cast<double>(in) == scale_ ? 0 : scale_;
  };
  scaled(1, attrs_.size[0], attrs_.scale_height);
  scaled(2, attrs_.size[1], attrs_.scale_width);
  return resize(x, attrs_);
}

double Upsample::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return (attrs_.mode == ResizeMode::kLinear ? 9.0 : 1.0) * static_cast<double>(y.shape.elements());
}

}  // namespace dlpipe::engine
