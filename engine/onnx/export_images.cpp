// Exports convolutions, pooling, resize and batch normalisation. In ONNX, images are planes [N,C,H,W].
#include <cmath>

#include "dlpipe/ops.h"
#include "engine/graph/matching.h"
#include "engine/onnx/export_run.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/conv_unit.h"
#include "engine/ops/resize.h"

namespace dlpipe::engine::onnx {

namespace {

std::vector<int64_t> pair_of(const std::array<int, 2>& values) {
  return {values[0], values[1]};
}
// [top, left, bottom, right]
std::vector<int64_t> pads_of(const std::array<int, 2>& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

}  // namespace

void Exporter::convolve(const std::string& x, ValueId weight, ValueId bias, const Conv2dAttrs& attrs,
                        const std::string& out) {
  const Shape& filter = value(weight).shape;
  emit("Conv", {x, plain(weight), bias == graph::kNone ? "" : plain(bias)}, out,
       {ints("kernel_shape", {filter[2], filter[3]}), ints("strides", pair_of(attrs.stride)),
        ints("pads", pads_of(attrs.padding)), ints("dilations", pair_of(attrs.dilation)),
        integer("group", attrs.groups)});
}

void Exporter::convolve_unit(const std::string& x, ValueId weight, ValueId bias, const ConvUnitAttrs& attrs,
                             const std::string& out) {
  const std::string sums = attrs.tail == ConvTail::kNone ? out : temporary(out);
  convolve(x, weight, bias, attrs.conv2d(), sums);
  if (attrs.tail == ConvTail::kClip) {
    const DType dtype = value(weight).dtype;
    emit("Clip", {sums, scalar(attrs.low, dtype), scalar(attrs.high, dtype)}, out);
  }
  if (attrs.tail == ConvTail::kSilu) emit("Mul", {sums, emit("Sigmoid", {sums}, temporary(out))}, out);
}

void Exporter::convolution(const Node& node) {
  const auto& attrs = node.attrs.as<Conv2dAttrs>();
  const std::string x = planes(node.inputs[0]);
  const std::string out = new_planes(node.outputs[0]);
  const bool relu = attrs.activation == Activation::kRelu;
  const std::string sums = relu ? temporary(out) : out;
  convolve(x, node.inputs[1], graph::input_or_none(node, 2), attrs, sums);
  if (relu) emit("Relu", {sums}, out);
}

void Exporter::convolution_transpose(const Node& node) {
  const auto& attrs = node.attrs.as<ConvTranspose2dAttrs>();
  const std::string x = planes(node.inputs[0]);
  const Shape& filter = value(node.inputs[1]).shape;
  emit("ConvTranspose", {x, plain(node.inputs[1])}, new_planes(node.outputs[0]),
       {ints("kernel_shape", {filter[2], filter[3]}), ints("strides", pair_of(attrs.stride)),
        ints("pads", pads_of(attrs.padding)), ints("output_padding", pair_of(attrs.output_padding)),
        ints("dilations", pair_of(attrs.dilation)), integer("group", attrs.groups)});
}

void Exporter::convolution_unit(const Node& node) {
  const std::string x = planes(node.inputs[0]);
  const ValueId residual = graph::input_or_none(node, 3);
  const std::string added = residual == graph::kNone ? "" : planes(residual);
  const std::string out = new_planes(node.outputs[0]);
  const std::string activated = residual == graph::kNone ? out : temporary(out);
  convolve_unit(x, node.inputs[1], graph::input_or_none(node, 2), node.attrs.as<ConvUnitAttrs>(), activated);
  if (residual != graph::kNone) emit("Add", {activated, added}, out);
}

void Exporter::convolution_pair(const Node& node) {
  const auto& attrs = node.attrs.as<ConvPairAttrs>();
  const std::string x = planes(node.inputs[0]);
  const std::string out = new_planes(node.outputs[0]);
  const std::string between = temporary(out);
  convolve_unit(x, node.inputs[1], graph::input_or_none(node, 3), attrs.inner(), between);
  convolve_unit(between, node.inputs[2], graph::input_or_none(node, 4),
                attrs.outer(value(node.inputs[1]).shape[0]), out);
}

std::vector<Attribute> Exporter::window_of(const Pool2dAttrs& attrs) {
  return {ints("kernel_shape", pair_of(attrs.kernel)), ints("strides", pair_of(attrs.stride)),
          ints("pads", pads_of(attrs.padding)), integer("ceil_mode", attrs.ceil_mode ? 1 : 0)};
}

void Exporter::max_pool(const Node& node) {
  const std::string x = planes(node.inputs[0]);
  emit("MaxPool", {x}, new_planes(node.outputs[0]), window_of(node.attrs.as<Pool2dAttrs>()));
}

void Exporter::avg_pool(const Node& node) {
  const auto& attrs = node.attrs.as<Pool2dAttrs>();
  const std::string x = planes(node.inputs[0]);
  std::vector<Attribute> window = window_of(attrs);
  window.push_back(integer("count_include_pad", attrs.count_include_pad ? 1 : 0));
  emit("AveragePool", {x}, new_planes(node.outputs[0]), std::move(window));
}

void Exporter::global_pool(const Node& node) {
  const std::string out = new_plain(node.outputs[0]);
  const std::string pooled = emit("GlobalAveragePool", {planes(node.inputs[0])}, temporary(out));
  emit("Flatten", {pooled}, out, {integer("axis", 1)});
}

// Writes the output's sizes, or scales if they differ from output / input.
void Exporter::resize(const Node& node) {
  const auto& attrs = node.attrs.as<ResizeAttrs>();
  const bool is_scaled = attrs.scale_height > 0 || attrs.scale_width > 0;
  ResizeCoordinates coordinates = attrs.coordinates;
  if (coordinates == ResizeCoordinates::kHalfPixelSymmetric) {
    if (is_scaled) refuse(node, "half_pixel_symmetric needs opset 19");
    coordinates = ResizeCoordinates::kHalfPixel;
  }
  const Shape& from = value(node.inputs[0]).shape;
  const std::string x = planes(node.inputs[0]);
  const std::string out = new_planes(node.outputs[0]);
  std::vector<std::string> inputs = {x, ""};
  if (is_scaled) {
    const auto scale_of = [&](double given, int64_t in, int out_size) {
      const auto scale = static_cast<float>(given > 0 ? given : out_size / static_cast<double>(in));
      if (std::floor(static_cast<float>(in) * scale) != static_cast<float>(out_size))
        refuse(node, dlpipe::concat("in ONNX, ", in, " pixels times ", scale, " are not ", out_size));
      return scale;
    };
    const float scales[] = {1, 1, scale_of(attrs.scale_height, from[1], attrs.size[0]),
                            scale_of(attrs.scale_width, from[2], attrs.size[1])};
    inputs.push_back(add_initializer(unused("scales"), ElementType::kFloat, {4}, scales, sizeof(scales)));
  } else {
    inputs.emplace_back();
    const std::vector<int64_t> sizes = {from[3], attrs.size[0], attrs.size[1]};
    const bool grows = (value(node.inputs[0]).batch_axes & bit(0)) != 0;
    inputs.push_back(grows ? emit("Concat", {batch_size(node, from[0], out), integers(sizes)}, temporary(out),
                                  {integer("axis", 0)})
                           : integers({from[0], sizes[0], sizes[1], sizes[2]}));
  }
  emit("Resize", inputs, out,
       {text("mode", attr_names(attrs.mode)[static_cast<size_t>(attrs.mode)]),
        text("coordinate_transformation_mode", attr_names(coordinates)[static_cast<size_t>(coordinates)]),
        text("nearest_mode", attr_names(attrs.rounding)[static_cast<size_t>(attrs.rounding)])});
}

void Exporter::flatten(const Node& node) {
  const bool images = value(node.inputs[0]).shape.rank() == 4;
  const std::string x = images ? planes(node.inputs[0]) : plain(node.inputs[0]);
  emit("Flatten", {x}, new_plain(node.outputs[0]), {integer("axis", 1)});
}

void Exporter::batch_norm(const Node& node) {
  const auto& attrs = node.attrs.as<BatchNormAttrs>();
  if (attrs.training) refuse(node, "it normalises by the batch's statistics; capture the model in eval mode");
  const int rank = value(node.inputs[0]).shape.rank();
  if (rank != 4 && rank != 2) refuse(node, "channels are last and ONNX needs them second; reshape to [N,C]");
  const bool images = rank == 4;
  const auto name = [&](ValueId id) { return images ? planes(id) : plain(id); };
  const std::string x = name(node.inputs[0]);
  const ValueId added = graph::input_or_none(node, 5);
  const bool has_residual = added != graph::kNone;
  const std::string residual = has_residual ? name(added) : "";
  const std::string out = images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]);
  std::string y =
      emit("BatchNormalization",
           {x, plain(node.inputs[1]), plain(node.inputs[2]), plain(node.inputs[3]), plain(node.inputs[4])},
           has_residual || attrs.relu ? temporary(out) : out, {number("epsilon", attrs.epsilon)});
  if (has_residual) y = emit("Add", {y, residual}, attrs.relu ? temporary(out) : out);
  if (attrs.relu) emit("Relu", {y}, out);
}

}  // namespace dlpipe::engine::onnx
