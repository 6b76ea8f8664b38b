// resize: the shape rule, samples, and the computation of positions along an axis from the attributes.
#include "engine/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>,
                              const Attrs& any_attrs) {
  const TensorSpec& x = inputs[0];
  if (x.shape.rank() != 4 || !is_floating(x.dtype)) {
    refuse("resize", "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; reshape or cast");
  }
  const auto& attrs = any_attrs.as<ResizeAttrs>();
  constexpr int64_t kMostPixels = std::numeric_limits<int>::max();
  for (int axis : {1, 2}) {
    if (x.shape[axis] < 1 || x.shape[axis] > kMostPixels)
      refuse("resize", "expected images of at least one pixel, got ", x.shape.to_string());
    if (attrs.size[static_cast<size_t>(axis - 1)] < 1)
      refuse("resize", "expected a size of at least 1x1, got ", attrs.size[0], "x", attrs.size[1],
             "; the scale is too small");
  }
  for (const int axis : {0, 1}) {
    const double scale = axis == 0 ? attrs.scale_height : attrs.scale_width;
    const double size = attrs.size[static_cast<size_t>(axis)];
    const double scaled = scale * static_cast<double>(x.shape[axis + 1]);
    if (scale < 0 ||
        (scale != 0 && !(std::abs(scaled - size) <= 1 + 1e-6 * size)))  // sizes may be rounded or truncated
      refuse("resize", "expected a scale that turns ", x.shape[axis + 1], " pixels into ",
             attrs.size[static_cast<size_t>(axis)], ", or 0 for output / input, got ", scale);
  }
  return {{{x.shape[0], attrs.size[0], attrs.size[1], x.shape[3]}, x.dtype, Layout::kPlain}};
}

OpSample sample(const char* name, Shape x, const ResizeAttrs& attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}};
  sample.attrs = attrs;
  return sample;
}

std::vector<OpSample> samples() {
  using enum ResizeCoordinates;
  using enum ResizeRounding;
  const auto nearest = [](int height, int width, ResizeCoordinates coordinates, ResizeRounding rounding) {
    return ResizeAttrs{.size = {height, width}, .coordinates = coordinates, .rounding = rounding};
  };
  const auto linear = [](int height, int width, ResizeCoordinates coordinates) {
    return ResizeAttrs{.size = {height, width}, .mode = ResizeMode::kLinear, .coordinates = coordinates};
  };
  ResizeAttrs scaled = linear(10, 4, kHalfPixelSymmetric);
  scaled.scale_height = 1.5, scaled.scale_width = 0.6;
  ResizeAttrs scaled_nearest = nearest(4, 10, kHalfPixel, kPreferFloor);
  scaled_nearest.scale_height = 0.6, scaled_nearest.scale_width = 1.49;
  return {
      sample("nearest, twice", {2, 3, 5, 16}, nearest(6, 10, kAsymmetric, kFloor)),
      sample("nearest-exact, up and down", {2, 4, 9, 8}, nearest(7, 4, kHalfPixel, kPreferCeil)),
      sample("nearest, odd channels", {1, 5, 4, 3}, nearest(3, 11, kAlignCorners, kCeil)),
      sample("nearest, scaled", {1, 7, 7, 19}, scaled_nearest),
      sample("linear, twice", {2, 3, 5, 16}, linear(6, 10, kHalfPixel)),
      sample("linear, corners", {2, 4, 3, 8}, linear(7, 5, kAlignCorners)),
      sample("linear, corners of one", {1, 4, 5, 8}, linear(1, 1, kAlignCorners)),
      sample("linear to one pixel", {1, 5, 4, 8}, linear(1, 6, kPytorchHalfPixel)),
      sample("linear, many pixels left out", {1, 9, 11, 16}, linear(3, 2, kHalfPixel)),
      sample("linear, scaled", {1, 7, 7, 19}, scaled),
      sample("linear, corners of few channels", {1, 3, 5, 4}, linear(4, 7, kAlignCorners)),
      sample("linear of a line", {1, 1, 6, 1}, linear(2, 13, kAsymmetric)),
      sample("linear, several slices", {2, 40, 33, 17}, linear(80, 66, kHalfPixel)),
      sample("nearest, several slices", {2, 40, 33, 17}, nearest(80, 66, kAsymmetric, kFloor)),
  };
}

std::vector<OpSample> bench() {
  const ResizeAttrs twice{.size = {80, 80}};
  ResizeAttrs logits{
      .size = {512, 512}, .mode = ResizeMode::kLinear, .coordinates = ResizeCoordinates::kHalfPixel};
  ResizeAttrs features = logits;
  features.size = {128, 128};
  return {
      sample("nearest, twice", {8, 40, 40, 256}, twice),
      sample("linear, twice", {4, 64, 64, 128}, features),
      sample("linear, logits of 21 classes", {2, 64, 64, 21}, logits),
  };
}

// Linear: three interpolations per element (two down, one across) of three operations each.
double flops(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<ResizeAttrs>();
  const double elements =
      static_cast<double>(inputs[0].shape[0] * inputs[0].shape[3]) * attrs.size[0] * attrs.size[1];
  return attrs.mode == ResizeMode::kLinear ? 9 * elements : elements;
}

}  // namespace

ResizePlaces resize_places(const Shape& x, const ResizeAttrs& attrs, int axis) {
  ResizePlaces made;
  made.in = static_cast<int>(x[axis + 1]);
  made.out = attrs.size[static_cast<size_t>(axis)];
  made.mode = attrs.mode;
  made.rounding = attrs.rounding;
  const double scale = axis == 0 ? attrs.scale_height : attrs.scale_width;
  made.is_by_scale = scale > 0;
  made.numerator = scale > 0 ? 1 : made.in;
  made.denominator = scale > 0 ? scale : made.out;
  switch (attrs.coordinates) {
    case ResizeCoordinates::kAsymmetric:
      break;
    case ResizeCoordinates::kAlignCorners:
      made.is_by_scale = false;
      made.numerator = made.in - 1;
      made.denominator = std::max(1, made.out - 1);
      break;
    case ResizeCoordinates::kPytorchHalfPixel:
    case ResizeCoordinates::kHalfPixelSymmetric:
    case ResizeCoordinates::kHalfPixel:
      made.shift = 0.5;
      made.offset = -0.5;
      if (attrs.coordinates == ResizeCoordinates::kHalfPixelSymmetric && scale > 0) {
        made.shift -= made.out / 2.0;  // relative to the center, which is exact
        made.offset += made.in / 2.0;
      }
      if (attrs.coordinates == ResizeCoordinates::kPytorchHalfPixel && made.out == 1) {
        made.numerator = made.offset = 0;
      }
      break;
  }
  return made;
}

extern const OpRecord resize_op;
const OpRecord resize_op{
    .name = "resize",
    .attr_form = &attr_form<ResizeAttrs>,
    .infer = infer,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = samples,
    .bench = bench,
    .f32 = {1e-5, 2e-6, "shares of pixels in f32; gradients are sums of some ten terms"},
    .flops = flops,
};

Tensor resize(const Tensor& x, const ResizeAttrs& attrs) {
  return apply_one(resize_op, {x}, attrs);
}

}  // namespace dlpipe::engine
