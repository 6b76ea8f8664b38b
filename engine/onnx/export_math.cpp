// Exports elementwise ops, products, ops on rows (softmax, norms) and reductions.
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include "base/text.h"
#include "engine/graph/matching.h"
#include "engine/onnx/export_run.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/losses.h"
#include "engine/ops/products.h"
#include "engine/ops/reductions.h"
#include "engine/ops/sequences.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine::onnx {

void Exporter::apply_unary(std::string_view op, const Attrs* any_attrs, DType dtype, const std::string& in,
                           const std::string& out) {
  static const std::map<std::string_view, const char*> kSame = {
      {"relu", "Relu"}, {"erf", "Erf"},   {"exp", "Exp"},         {"log", "Log"}, {"sin", "Sin"},
      {"sqrt", "Sqrt"}, {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"}, {"cos", "Cos"}};
  if (const auto same = kSame.find(op); same != kSame.end()) {
    emit(same->second, {in}, out);
  } else if (op == "silu") {
    emit("Mul", {in, emit("Sigmoid", {in}, temporary(out))}, out);
  } else if (op == "gelu") {  // x (1 + erf(x / sqrt 2)) / 2
    const std::string scaled = emit("Div", {in, scalar(std::numbers::sqrt2, dtype)}, temporary(out));
    const std::string erf = emit("Erf", {scaled}, temporary(out));
    const std::string sum = emit("Add", {erf, scalar(1.0, dtype)}, temporary(out));
    emit("Mul", {emit("Mul", {in, sum}, temporary(out)), scalar(0.5, dtype)}, out);
  } else if (op == "clip") {
    const auto& attrs = any_attrs->as<ClipAttrs>();
    emit("Clip", {in, scalar(attrs.low, dtype), scalar(attrs.high, dtype)}, out);
  } else {
    const auto& attrs = any_attrs->as<ScaleAttrs>();
    const std::string scaled =
        emit("Mul", {in, scalar(attrs.factor, dtype)}, attrs.offset == 0 ? out : temporary(out));
    if (attrs.offset != 0) emit("Add", {scaled, scalar(attrs.offset, dtype)}, out);
  }
}

void Exporter::unary(const Node& node) {
  const ValueId x = node.inputs[0];
  const bool images = is_planes(x);
  const std::string in = images ? planes(x) : plain(x);
  apply_unary(node.op->record->name, &node.attrs, value(x).dtype, in,
              images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]));
}

Exporter::Pair Exporter::operands_of(const Node& node) {
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const bool images =
      value(a).shape.rank() == 4 && value(b).shape.rank() == 4 && (is_planes(a) || is_planes(b));
  const std::string left = images ? planes(a) : plain(a), right = images ? planes(b) : plain(b);
  return {left, right, images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0])};
}

void Exporter::binary(const Node& node) {
  static const std::map<std::string_view, const char*> kNames = {
      {"add", "Add"}, {"sub", "Sub"}, {"mul", "Mul"}, {"div", "Div"}, {"maximum", "Max"}, {"minimum", "Min"}};
  const Pair pair = operands_of(node);
  emit(kNames.at(node.op->record->name), {pair.left, pair.right}, pair.out);
}

void Exporter::sum_relu(const Node& node) {
  const Pair pair = operands_of(node);
  emit("Relu", {emit("Add", {pair.left, pair.right}, temporary(pair.out))}, pair.out);
}

void Exporter::comparison(const Node& node) {
  const Pair pair = operands_of(node);
  const char* const op = node.op->record->name == std::string_view("greater") ? "Greater" : "Equal";
  const std::string truth = emit(op, {pair.left, pair.right}, temporary(pair.out));
  emit("Cast", {truth}, pair.out,
       {integer("to", static_cast<int64_t>(type_of(value(node.outputs[0]).dtype)))});
}

void Exporter::masked(const Node& node) {
  const Pair pair = operands_of(node);
  const std::string keep = emit("Cast", {pair.right}, temporary(pair.out),
                                {integer("to", static_cast<int64_t>(ElementType::kBool))});
  emit("Where", {keep, pair.left, scalar(0.0, value(node.inputs[0]).dtype)}, pair.out);
}

void Exporter::linear(const Node& node) {
  const Activation activation = node.attrs.as<LinearAttrs>().activation;
  const std::string out = new_plain(node.outputs[0]);
  const std::string result = activation == Activation::kNone ? out : temporary(out);
  const std::string bias = node.inputs.size() > 2 ? plain(node.inputs[2]) : "";
  const std::string x = plain(node.inputs[0]), weight = plain(node.inputs[1]);
  if (value(node.inputs[0]).shape.rank() == 2) {
    emit("Gemm", {x, weight, bias}, result, {integer("transB", 1)});
  } else {
    const std::string turned = emit("Transpose", {weight}, temporary(out), {ints("perm", {1, 0})});
    const std::string y = emit("MatMul", {x, turned}, bias.empty() ? result : temporary(out));
    if (!bias.empty()) emit("Add", {y, bias}, result);
  }
  if (activation != Activation::kNone)
    apply_unary(activation == Activation::kRelu ? "relu" : "gelu", nullptr, value(node.inputs[0]).dtype,
                result, out);
}

std::string Exporter::with_last_axes_turned(ValueId id, const std::string& base) {
  std::vector<int64_t> order(static_cast<size_t>(value(id).shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return emit("Transpose", {plain(id)}, temporary(base), {ints("perm", order)});
}

void Exporter::product(const Node& node) {
  const auto& attrs = node.attrs.as<MatmulAttrs>();
  const std::string out = new_plain(node.outputs[0]);
  const std::string a =
      attrs.transpose_a ? with_last_axes_turned(node.inputs[0], out) : plain(node.inputs[0]);
  const std::string b =
      attrs.transpose_b ? with_last_axes_turned(node.inputs[1], out) : plain(node.inputs[1]);
  emit("MatMul", {a, b}, out);
}

void Exporter::attention(const Node& node) {
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  const AttentionShape shape(value(node.inputs[0]).shape, attrs);
  const std::string out = new_plain(node.outputs[0]);
  const std::string heads = integers({0, shape.length, shape.heads, shape.width});
  std::vector<std::string> parts;
  const std::string qkv = plain(node.inputs[0]);
  for (int64_t i = 0; i < 3; ++i) {
    const std::string part = emit(
        "Slice", {qkv, integers({i * shape.out_row()}), integers({(i + 1) * shape.out_row()}), integers({2})},
        temporary(out));
    const std::string split = emit("Reshape", {part, heads}, temporary(out));
    const std::vector<int64_t> order =
        i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3};
    parts.push_back(emit("Transpose", {split}, temporary(out), {ints("perm", order)}));
  }
  std::string scores = emit("MatMul", {parts[0], parts[1]}, temporary(out));
  scores = emit("Mul", {scores, scalar(shape.scale, value(node.inputs[0]).dtype)}, temporary(out));
  if (attrs.causal) scores = emit("Add", {scores, causal_mask(shape.length)}, temporary(out));
  const std::string weights = emit("Softmax", {scores}, temporary(out), {integer("axis", -1)});
  const std::string mixed = emit("MatMul", {weights, parts[2]}, temporary(out));
  const std::string rows = emit("Transpose", {mixed}, temporary(out), {ints("perm", {0, 2, 1, 3})});
  emit("Reshape", {rows, integers({0, shape.length, shape.out_row()})}, out);
}

std::string Exporter::causal_mask(int64_t length) {
  std::vector<float> mask(static_cast<size_t>(length * length), 0.0F);
  for (int64_t row = 0; row < length; ++row) {
    for (int64_t column = row + 1; column < length; ++column)
      mask[static_cast<size_t>(row * length + column)] = -std::numeric_limits<float>::infinity();
  }
  return add_initializer(unused("causal"), ElementType::kFloat, {length, length}, mask.data(),
                         mask.size() * sizeof(float));
}

void Exporter::layer_norm_of(const std::string& x, const Node& node, size_t gamma, const std::string& out) {
  const auto& attrs = node.attrs.as<LayerNormAttrs>();
  emit("LayerNormalization", {x, plain(node.inputs[gamma]), plain(node.inputs[gamma + 1])}, out,
       {integer("axis", -1), number("epsilon", attrs.epsilon)});
}

void Exporter::layer_norm(const Node& node) {
  const std::string x = plain(node.inputs[0]);
  layer_norm_of(x, node, 1, new_plain(node.outputs[0]));
}

void Exporter::add_layer_norm(const Node& node) {
  const std::string x = plain(node.inputs[0]), branch = plain(node.inputs[1]);
  const std::string sum = emit("Add", {x, branch}, new_plain(node.outputs[0]));
  layer_norm_of(sum, node, 2, new_plain(node.outputs[1]));
}

void Exporter::softmax(const Node& node) {
  const std::string x = plain(node.inputs[0]);
  emit(graph::is_op(node, "softmax") ? "Softmax" : "LogSoftmax", {x}, new_plain(node.outputs[0]),
       {integer("axis", node.attrs.as<SoftmaxAttrs>().axis)});
}

void Exporter::reduction(const Node& node) {
  const auto& attrs = node.attrs.as<ReductionAttrs>();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < value(node.inputs[0]).shape.rank(); ++axis) {
    if (attrs.axes & bit(axis)) axes.push_back(axis);
  }
  const std::string x = plain(node.inputs[0]);
  const std::string out = new_plain(node.outputs[0]);
  if (graph::is_op(node, "sum")) {
    emit("ReduceSum", {x, integers(axes)}, out,
         {integer("keepdims", attrs.keep_dims ? 1 : 0), integer("noop_with_empty_axes", 1)});
  } else if (axes.empty()) {
    emit("Identity", {x}, out);
  } else {
    emit("ReduceMean", {x}, out, {ints("axes", axes), integer("keepdims", attrs.keep_dims ? 1 : 0)});
  }
}

void Exporter::maximum(const Node& node) {
  const auto& attrs = node.attrs.as<MaxAttrs>();
  const std::string x = plain(node.inputs[0]);
  emit("ReduceMax", {x}, new_plain(node.outputs[0]),
       {ints("axes", {attrs.axis}), integer("keepdims", attrs.keep_dims ? 1 : 0)});
}

}  // namespace dlpipe::engine::onnx
