// Imports Resize and its predecessor Upsample, which change the height and width of images.
#include "engine/ops/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

constexpr size_t kAxes = 4;  // N, C, H, W

// A node's sizes and scales for each axis.
struct Resized {
  std::array<int64_t, kAxes> size;
  std::array<double, kAxes> scale;  // 0: output / input
};

template <class Enum>
Enum chosen(const Run& run, const NodeEntry& node, const char* name, const char* otherwise) {
  const std::string value = run.attribute(node, name, otherwise);
  std::string known;
  const auto names = attr_names(Enum());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == value) return static_cast<Enum>(i);
    known += dlpipe::concat(known.empty() ? "" : ", ", names[i]);
  }
  run.refuse(node, "its ", name, " is '", value, "'; dlpipe supports ", known);
}

// Sizes from scales, as ONNX's shape inference and ONNX Runtime compute them. A scale that is output / input rounded to f32 is
// treated as exactly that: otherwise positions at a pixel would be slightly off.
void scale_axis(const Run& run, const NodeEntry& node, size_t axis, double given, Resized& resized) {
  constexpr int32_t kMostPixels = std::numeric_limits<int32_t>::max() / 2;
  const auto scale = static_cast<float>(given);
  const auto in = static_cast<float>(resized.size[axis]);
  const float out = std::floor(in * scale);
  if (!(scale > 0) || !(out >= 0) || out > static_cast<float>(kMostPixels))
    run.refuse(node, "impossible sizes: scale ", given, " of size ", resized.size[axis]);
  resized.size[axis] = static_cast<int64_t>(out);
  resized.scale[axis] = static_cast<float>(out / static_cast<double>(in)) == scale ? 0 : scale;
}

// One scale for all given axes, so that images keep their aspect ratio.
void keep_form(const NodeEntry& node, const Run& run, const std::string& policy, const std::vector<int>& axes,
               const Shape& from, Resized& resized) {
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller")
    run.refuse(node, "its keep_aspect_ratio_policy is '", policy,
               "'; dlpipe supports stretch, not_larger, not_smaller");
  double scale = 0;
  for (const int axis : axes) {
    const double own = static_cast<double>(resized.size[static_cast<size_t>(axis)]) /
                       static_cast<double>(std::max<int64_t>(1, from[axis]));
    if (scale == 0 || (policy == "not_larger" ? own < scale : own > scale)) scale = own;
  }
  for (const int axis : axes) {
    const auto i = static_cast<size_t>(axis);
    const double out = std::floor(scale * static_cast<double>(from[axis]) + 0.5);
    if (out > std::numeric_limits<int32_t>::max() / 2.0) run.refuse(node, "impossible sizes");
    resized.size[i] = static_cast<int64_t>(out);
    resized.scale[i] =
        static_cast<double>(resized.size[i]) / static_cast<double>(from[axis]) == scale ? 0 : scale;
  }
}

Shape checked_shape(const Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  if (shape.rank() != static_cast<int>(kAxes))
    run.refuse(node, "expected images [N,C,H,W] as input 0, got ", shape.to_string());
  if (run.is_known(node, 0) || !is_floating(run.value(node, 0).tensor.dtype()))
    run.refuse(node, "dlpipe resizes floats only");
  return shape;
}

Resized unchanged(const Shape& shape) {
  return {{shape[0], shape[1], shape[2], shape[3]}, {}};
}

void set_resized(Run& run, const NodeEntry& node, const Resized& resized, ResizeAttrs attrs) {
  const Shape from = run.shape(node, 0);
  if (resized.size[0] != from[0] || resized.size[1] != from[1] || resized.scale[0] != 0 ||
      resized.scale[1] != 0)
    run.refuse(node, "it changes the batch or the channels of ", from.to_string(),
               "; dlpipe resizes height and width");
  constexpr int64_t kMostElements = int64_t{1} << 32;
  const int64_t height = resized.size[2], width = resized.size[3];
  const int64_t planes = std::max<int64_t>(1, from[0] * from[1]);
  constexpr int64_t kMostSide = std::numeric_limits<int32_t>::max() / 2;
  if (from[2] < 1 || from[3] < 1 || height < 1 || width < 1 || height > kMostSide || width > kMostSide ||
      planes > kMostElements / height / width)
    run.refuse(node, "impossible sizes: ", from.to_string(), " to ", height, "x", width);
  attrs.size = {static_cast<int>(height), static_cast<int>(width)};
  attrs.scale_height = resized.scale[2], attrs.scale_width = resized.scale[3];
  // The specification is ambiguous about whether an output with a fractional length ends there or at a whole pixel.
  for (size_t axis : {2, 3}) {
    const bool is_open =
        attrs.coordinates == ResizeCoordinates::kAlignCorners ||
        (attrs.coordinates == ResizeCoordinates::kPytorchHalfPixel && resized.size[axis] == 1);
    if (is_open && resized.scale[axis] != 0)
      run.refuse(node, "its scale ", static_cast<float>(resized.scale[axis]), " of ",
                 from[static_cast<int>(axis)], " pixels is not a whole number, and ",
                 attr_names(attrs.coordinates)[static_cast<size_t>(attrs.coordinates)],
                 " then differs between ONNX's tests and ONNX Runtime; give sizes instead");
  }
  const bool is_exact = attrs.scale_height == 0 && attrs.scale_width == 0;
  if (is_exact && height == from[2] && width == from[3]) return run.set_value(node, run.value(node, 0));
  if (is_exact && attrs.coordinates == ResizeCoordinates::kHalfPixelSymmetric)
    attrs.coordinates = ResizeCoordinates::kHalfPixel;
  run.set_image(node, resize(run.image(node, 0), attrs));
}

// Upsample, and Resize of opset 10. Their specification doesn't define positions. ONNX Runtime uses i / scale; between two pixels
// it takes the one before, or the one after if the output is smaller.
void upsample_op(Run& run, const NodeEntry& node) {
  const Shape shape = checked_shape(run, node);
  std::vector<double> scales;
  if (const Attribute* const given = run.find(node, "scales"); given != nullptr) {
    scales.assign(given->floats.begin(), given->floats.end());
  } else {
    scales = run.numbers(node, 1);
  }
  if (scales.size() != kAxes) run.refuse(node, "expected four scales, got ", scales.size());
  Resized resized = unchanged(shape);
  for (size_t axis = 0; axis < kAxes; ++axis) scale_axis(run, node, axis, scales[axis], resized);
  ResizeAttrs attrs;
  attrs.mode = chosen<ResizeMode>(run, node, "mode", "nearest");
  if (attrs.mode == ResizeMode::kNearest) {
    const auto [least, most] = std::minmax(scales[2], scales[3]);
    if (least < 1 && most > 1)
      run.refuse(node, "it makes one side longer and the other shorter, which dlpipe doesn't support");
    if (least < 1) attrs.rounding = ResizeRounding::kCeil;
  }
  set_resized(run, node, resized, attrs);
}

void resize_op(Run& run, const NodeEntry& node) {
  if (run.opset() < 11) return upsample_op(run, node);
  const Shape shape = checked_shape(run, node);
  ResizeAttrs attrs;
  attrs.mode = chosen<ResizeMode>(run, node, "mode", "nearest");
  attrs.coordinates = chosen<ResizeCoordinates>(run, node, "coordinate_transformation_mode", "half_pixel");
  const auto rounding = chosen<ResizeRounding>(run, node, "nearest_mode", "round_prefer_floor");
  if (attrs.mode == ResizeMode::kNearest) attrs.rounding = rounding;
  for (const char* const name : {"antialias", "exclude_outside"}) {
    if (run.attribute(node, name, int64_t{0}) != 0)
      run.refuse(node, "dlpipe's resize doesn't support ", name);
  }
  std::vector<int64_t> all(kAxes);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> axes = run.axes(node, run.attribute(node, "axes", all), shape.rank());
  const auto is_given = [&](size_t i) {
    if (!run.has(node, i)) return false;
    const RunValue& value = run.value(node, i);
    return value.ints ? !value.ints->values.empty() : value.tensor.elements() != 0;
  };
  const bool has_scales = is_given(2);
  if (has_scales == is_given(3)) run.refuse(node, "expected scales or sizes");
  Resized resized = unchanged(shape);
  const auto expect_count = [&](size_t count, const char* what) {
    if (count != axes.size()) run.refuse(node, "expected ", axes.size(), " ", what, ", got ", count);
  };
  if (has_scales) {
    const std::vector<double> scales = run.numbers(node, 2);
    expect_count(scales.size(), "scales");
    for (size_t i = 0; i < axes.size(); ++i)
      scale_axis(run, node, static_cast<size_t>(axes[i]), scales[i], resized);
  } else {
    const std::vector<int64_t> sizes = run.ints(node, 3).values;
    expect_count(sizes.size(), "sizes");
    for (size_t i = 0; i < axes.size(); ++i) resized.size[static_cast<size_t>(axes[i])] = sizes[i];
    keep_form(node, run, run.attribute(node, "keep_aspect_ratio_policy", "stretch"), axes, shape, resized);
  }
  set_resized(run, node, resized, attrs);
}

constexpr std::array kResizeOps = {
    ImportedOp{"Resize", resize_op},
    ImportedOp{"Upsample", upsample_op},
};

}  // namespace

std::span<const ImportedOp> resize_ops() {
  return kResizeOps;
}

}  // namespace dlpipe::engine::onnx
