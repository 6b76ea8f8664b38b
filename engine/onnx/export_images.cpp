// Convolutions, pooling and batch normalisation: images are planes there.
#include "dlpipe/engine/onnx/export_run.h"
#include "dlpipe/engine/ops/conv_unit.h"
#include "dlpipe/engine/ops/ops.h"

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

std::string Exporter::convolve(const Node& node, const Conv2dAttrs& attrs, const std::string& out) {
  const Shape& weight = value(node.inputs[1]).shape;
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != graph::kNone;
  std::vector<std::string> inputs = {planes(node.inputs[0]), plain(node.inputs[1]),
                                     has_bias ? plain(node.inputs[2]) : ""};
  return emit("Conv", std::move(inputs), out,
              {ints("kernel_shape", {weight[2], weight[3]}), ints("strides", pair_of(attrs.stride)),
               ints("pads", pads_of(attrs.padding)), ints("dilations", pair_of(attrs.dilation)),
               integer("group", attrs.groups)});
}

void Exporter::convolution(const Node& node) {
  const auto& attrs = node.attrs.as<Conv2dAttrs>();
  const std::string out = new_planes(node.outputs[0]);
  const bool relu = attrs.activation == Activation::kRelu;
  const std::string y = convolve(node, attrs, relu ? temporary(out) : out);
  if (relu) emit("Relu", {y}, out);
}

void Exporter::convolution_unit(const Node& node) {
  const auto& attrs = node.attrs.as<ConvUnitAttrs>();
  const bool has_residual = node.inputs.size() > 3 && node.inputs[3] != graph::kNone;
  const std::string residual = has_residual ? planes(node.inputs[3]) : "";
  const std::string out = new_planes(node.outputs[0]);
  const std::string activated = has_residual ? temporary(out) : out;
  std::string y =
      convolve(node, attrs.conv2d(), attrs.tail == ConvTail::kNone ? activated : temporary(out));
  if (attrs.tail == ConvTail::kClip) y = emit("Clip", {y, scalar(attrs.low), scalar(attrs.high)}, activated);
  if (attrs.tail == ConvTail::kSilu)
    y = emit("Mul", {y, emit("Sigmoid", {y}, temporary(out))}, activated);
  if (has_residual) emit("Add", {y, residual}, out);
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

void Exporter::flatten(const Node& node) {
  const bool images = value(node.inputs[0]).shape.rank() == 4;
  const std::string x = images ? planes(node.inputs[0]) : plain(node.inputs[0]);
  emit("Flatten", {x}, new_plain(node.outputs[0]), {integer("axis", 1)});
}

void Exporter::batch_norm(const Node& node) {
  const auto& attrs = node.attrs.as<BatchNormAttrs>();
  if (attrs.training) refuse(node, "it normalises by the batch's statistics; capture the model in eval mode");
  const int rank = value(node.inputs[0]).shape.rank();
  if (rank != 4 && rank != 2)
    refuse(node, "channels stand last and ONNX wants them second; reshape to [N,C]");
  const bool images = rank == 4;
  const auto name = [&](ValueId id) { return images ? planes(id) : plain(id); };
  const std::string x = name(node.inputs[0]);
  const bool has_residual = node.inputs.size() > 5 && node.inputs[5] != graph::kNone;
  const std::string residual = has_residual ? name(node.inputs[5]) : "";
  const std::string out = images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]);
  std::string y =
      emit("BatchNormalization",
           {x, plain(node.inputs[1]), plain(node.inputs[2]), plain(node.inputs[3]), plain(node.inputs[4])},
           has_residual || attrs.relu ? temporary(out) : out, {number("epsilon", attrs.epsilon)});
  if (has_residual) y = emit("Add", {y, residual}, attrs.relu ? temporary(out) : out);
  if (attrs.relu) emit("Relu", {y}, out);
}

}  // namespace dlpipe::engine::onnx
