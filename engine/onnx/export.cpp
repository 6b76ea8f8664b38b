// One method for each op. A value has up to two names in the model: as dlpipe orders its axes ("plain"), and, of
// images, as ONNX does ("planes", [N,C,H,W]); a transpose makes one of the other where it is first asked for.
#include "dlpipe/engine/onnx/export.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/cast.h"
#include "dlpipe/engine/ops/clip.h"
#include "dlpipe/engine/ops/concat.h"
#include "dlpipe/engine/ops/expand.h"
#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/ops/matmul.h"
#include "dlpipe/engine/ops/max.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/reduction.h"
#include "dlpipe/engine/ops/reshape.h"
#include "dlpipe/engine/ops/scale.h"
#include "dlpipe/engine/ops/slice.h"
#include "dlpipe/engine/ops/softmax.h"
#include "dlpipe/engine/ops/transpose.h"

namespace dlpipe::engine::onnx {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;

constexpr int64_t kOpset = 17;

ElementType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ElementType::kFloat;
    case DType::kF64:
      return ElementType::kDouble;
    case DType::kBF16:
      return ElementType::kBFloat16;
    case DType::kF16:
      return ElementType::kFloat16;
    case DType::kU8:
      return ElementType::kUint8;
    case DType::kI32:
      return ElementType::kInt32;
    case DType::kI64:
      return ElementType::kInt64;
  }
  return ElementType::kUndefined;
}

Attribute ints(std::string name, std::vector<int64_t> values) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kInts};
  attribute.ints = std::move(values);
  return attribute;
}
Attribute integer(std::string name, int64_t value) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kInt};
  attribute.i = value;
  return attribute;
}
Attribute number(std::string name, double value) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kFloat};
  attribute.f = static_cast<float>(value);
  return attribute;
}

std::vector<int64_t> pair_of(const std::array<int, 2>& values) {
  return {values[0], values[1]};
}
// [top, left, bottom, right]
std::vector<int64_t> pads_of(const std::array<int, 2>& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

class Exporter {
 public:
  explicit Exporter(const Graph& graph) : graph_(graph), names_(graph.values.size()) {}

  Model run() {
    model_.producer = "dlpipe";
    model_.opsets[""] = kOpset;
    model_.metadata = graph_.metadata;
    model_.graph_name = graph_.name.empty() ? "graph" : graph_.name;
    for (const Value& value : graph_.values) {
      if (value.is_constant()) taken_.insert(value.name);
    }
    for (const ValueId id : graph_.inputs) {
      names_[index(id)].plain = unused(value(id).name);
      model_.inputs.push_back(info_of(id, names_[index(id)].plain));
    }
    for (const Node& node : graph_.nodes) export_node(node);
    for (const ValueId id : graph_.outputs) add_output(id);
    return std::move(model_);
  }

 private:
  struct Names {
    std::string plain;
    std::string planes;
  };
  using Method = void (Exporter::*)(const Node&);

  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  const Value& value(ValueId id) const { return graph_.value(id); }

  std::string unused(const std::string& base) {
    std::string name = base;
    for (int i = 2; !taken_.insert(name).second; ++i) name = concat(base, "_", i);
    return name;
  }

  ValueInfo info_of(ValueId id, const std::string& name) const {
    ValueInfo info{.name = name, .type = type_of(value(id).dtype), .dims = {}};
    for (int axis = 0; axis < value(id).shape.rank(); ++axis) {
      const int64_t size = value(id).shape[axis];
      if (!(value(id).batch_axes & bit(axis))) {
        info.dims.push_back({size, {}});
      } else {
        info.dims.push_back({-1, size == 1 ? "N" : concat(size, "*N")});
      }
    }
    return info;
  }

  void add_output(ValueId id) {
    std::string name = plain(id);
    const bool is_own = !value(id).is_constant() &&
                        std::none_of(model_.inputs.begin(), model_.inputs.end(),
                                     [&](const ValueInfo& input) { return input.name == name; }) &&
                        std::none_of(model_.outputs.begin(), model_.outputs.end(),
                                     [&](const ValueInfo& output) { return output.name == name; });
    if (!is_own) name = emit("Identity", {name}, unused(concat(name, ".out")));
    model_.outputs.push_back(info_of(id, name));
  }

  // A node of ONNX's with one output, whose name it answers.
  std::string emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                   std::vector<Attribute> attributes = {}) {
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    model_.nodes.push_back({op,
                            "",
                            concat("n", model_.nodes.size(), ".", op),
                            std::move(inputs),
                            {output},
                            std::move(attributes)});
    return output;
  }
  std::string temporary(const std::string& base) { return unused(concat(base, ".part")); }

  std::string add_initializer(const std::string& name, ElementType type, std::vector<int64_t> dims,
                              const void* data, size_t bytes) {
    model_.initializers.push_back(
        {name, type, std::move(dims), std::string(static_cast<const char*>(data), bytes)});
    return name;
  }
  std::string scalar(double number) {
    const auto value = static_cast<float>(number);
    return add_initializer(unused("scalar"), ElementType::kFloat, {}, &value, sizeof(value));
  }
  std::string integers(const std::vector<int64_t>& values) {
    return add_initializer(unused("integers"), ElementType::kInt64, {static_cast<int64_t>(values.size())},
                           values.data(), values.size() * sizeof(int64_t));
  }
  std::string add_constant(const std::string& name, const Tensor& tensor) {
    const Tensor row_major = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
    return add_initializer(name, type_of(tensor.dtype()), {tensor.shape().begin(), tensor.shape().end()},
                           row_major.raw(), row_major.size_bytes());
  }

  // The names of a value.
  bool is_planes(ValueId id) const {
    return names_[index(id)].plain.empty() && !names_[index(id)].planes.empty();
  }
  std::string plain(ValueId id) {
    if (id == kNone) return "";
    std::string& name = names_[index(id)].plain;
    if (!name.empty()) return name;
    if (value(id).is_constant()) return name = add_constant(unused_constant(id), value(id).constant);
    return name = emit("Transpose", {names_[index(id)].planes}, unused(value(id).name),
                       {ints("perm", {0, 2, 3, 1})});
  }
  std::string planes(ValueId id) {
    std::string& name = names_[index(id)].planes;
    if (!name.empty()) return name;
    const std::string from = plain(id);
    return name = emit("Transpose", {from}, unused(concat(value(id).name, ".planes")),
                       {ints("perm", {0, 3, 1, 2})});
  }
  std::string unused_constant(ValueId id) {
    const std::string& name = value(id).name;
    return written_constants_.insert(name).second ? name : unused(name);
  }
  std::string new_plain(ValueId id) { return names_[index(id)].plain = unused(value(id).name); }
  std::string new_planes(ValueId id) {
    return names_[index(id)].planes = unused(concat(value(id).name, ".planes"));
  }

  [[noreturn]] void refuse(const Node& node, std::string_view why) const {
    throw Error(Status(ErrorCode::kUnsupported, concat("[onnx] '", value(node.outputs[0]).name, "' (",
                                                       node.op->record->name, ") can't be exported: ", why)));
  }

  void export_node(const Node& node) {
    static const std::map<std::string_view, Method> kMethods = {
        {"add", &Exporter::binary},
        {"add_layer_norm", &Exporter::add_layer_norm},
        {"add_relu", &Exporter::sum_relu},
        {"avg_pool2d", &Exporter::avg_pool},
        {"batch_norm", &Exporter::batch_norm},
        {"cast", &Exporter::cast_to},
        {"concat", &Exporter::concatenate},
        {"conv2d", &Exporter::convolution},
        {"clip", &Exporter::unary},
        {"div", &Exporter::binary},
        {"embedding", &Exporter::gather},
        {"erf", &Exporter::unary},
        {"exp", &Exporter::unary},
        {"expand", &Exporter::expand},
        {"flatten", &Exporter::flatten},
        {"gelu", &Exporter::unary},
        {"global_avg_pool", &Exporter::global_pool},
        {"layer_norm", &Exporter::layer_norm},
        {"linear", &Exporter::linear},
        {"log", &Exporter::unary},
        {"log_softmax", &Exporter::softmax},
        {"matmul", &Exporter::product},
        {"max", &Exporter::maximum},
        {"max_pool2d", &Exporter::max_pool},
        {"mean", &Exporter::reduction},
        {"mul", &Exporter::binary},
        {"relu", &Exporter::unary},
        {"reshape", &Exporter::reshape},
        {"scale", &Exporter::unary},
        {"self_attention", &Exporter::attention},
        {"sigmoid", &Exporter::unary},
        {"silu", &Exporter::unary},
        {"slice", &Exporter::slice},
        {"softmax", &Exporter::softmax},
        {"sqrt", &Exporter::unary},
        {"sub", &Exporter::binary},
        {"sum", &Exporter::reduction},
        {"tanh", &Exporter::unary},
        {"transpose", &Exporter::transpose},
    };
    const auto method = kMethods.find(node.op->record->name);
    if (method == kMethods.end())
      refuse(node, "ONNX has no such op for inference; leave it out of what is captured");
    (this->*method->second)(node);
  }

  // From `in` to `out`, in whichever order of axes.
  void apply_unary(std::string_view op, const Node* node, const std::string& in, const std::string& out) {
    static const std::map<std::string_view, const char*> kSame = {
        {"relu", "Relu"}, {"erf", "Erf"},   {"exp", "Exp"},        {"log", "Log"},
        {"sqrt", "Sqrt"}, {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"}};
    if (const auto same = kSame.find(op); same != kSame.end()) {
      emit(same->second, {in}, out);
    } else if (op == "silu") {
      emit("Mul", {in, emit("Sigmoid", {in}, temporary(out))}, out);
    } else if (op == "gelu") {  // x (1 + erf(x / sqrt 2)) / 2
      const std::string scaled = emit("Div", {in, scalar(std::numbers::sqrt2)}, temporary(out));
      const std::string erf = emit("Erf", {scaled}, temporary(out));
      const std::string sum = emit("Add", {erf, scalar(1.0)}, temporary(out));
      emit("Mul", {emit("Mul", {in, sum}, temporary(out)), scalar(0.5)}, out);
    } else if (op == "clip") {
      const auto& attrs = node->attrs.as<ClipAttrs>();
      emit("Clip", {in, scalar(attrs.low), scalar(attrs.high)}, out);
    } else {
      const auto& attrs = node->attrs.as<ScaleAttrs>();
      const std::string scaled =
          emit("Mul", {in, scalar(attrs.factor)}, attrs.offset == 0 ? out : temporary(out));
      if (attrs.offset != 0) emit("Add", {scaled, scalar(attrs.offset)}, out);
    }
  }

  void unary(const Node& node) {
    const ValueId x = node.inputs[0];
    const bool images = is_planes(x);
    const std::string in = images ? planes(x) : plain(x);
    apply_unary(node.op->record->name, &node, in,
                images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]));
  }

  void binary(const Node& node) {
    static const std::map<std::string_view, const char*> kNames = {
        {"add", "Add"}, {"sub", "Sub"}, {"mul", "Mul"}, {"div", "Div"}};
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const bool images =
        value(a).shape.rank() == 4 && value(b).shape.rank() == 4 && (is_planes(a) || is_planes(b));
    const char* const op = kNames.at(node.op->record->name);
    if (images) {
      emit(op, {planes(a), planes(b)}, new_planes(node.outputs[0]));
    } else {
      emit(op, {plain(a), plain(b)}, new_plain(node.outputs[0]));
    }
  }

  void sum_relu(const Node& node) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const bool images =
        value(a).shape.rank() == 4 && value(b).shape.rank() == 4 && (is_planes(a) || is_planes(b));
    const std::string left = images ? planes(a) : plain(a), right = images ? planes(b) : plain(b);
    const std::string out = images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]);
    emit("Relu", {emit("Add", {left, right}, temporary(out))}, out);
  }

  void cast_to(const Node& node) {
    emit("Cast", {plain(node.inputs[0])}, new_plain(node.outputs[0]),
         {integer("to", static_cast<int64_t>(type_of(node.attrs.as<CastAttrs>().dtype)))});
  }

  // Images.

  void activated(std::string_view activation, const std::string& in, const std::string& out) {
    apply_unary(activation, nullptr, in, out);
  }

  void convolution(const Node& node) {
    const auto& attrs = node.attrs.as<Conv2dAttrs>();
    const Shape& weight = value(node.inputs[1]).shape;
    const std::string x = planes(node.inputs[0]);
    const std::string out = new_planes(node.outputs[0]);
    const bool relu = attrs.activation == Activation::kRelu;
    std::vector<std::string> inputs = {x, plain(node.inputs[1]),
                                       node.inputs.size() > 2 ? plain(node.inputs[2]) : ""};
    const std::string y = emit("Conv", std::move(inputs), relu ? temporary(out) : out,
                               {ints("kernel_shape", {weight[2], weight[3]}),
                                ints("strides", pair_of(attrs.stride)), ints("pads", pads_of(attrs.padding)),
                                ints("dilations", pair_of(attrs.dilation)), integer("group", attrs.groups)});
    if (relu) emit("Relu", {y}, out);
  }

  std::vector<Attribute> window_of(const Pool2dAttrs& attrs) {
    return {ints("kernel_shape", pair_of(attrs.kernel)), ints("strides", pair_of(attrs.stride)),
            ints("pads", pads_of(attrs.padding)), integer("ceil_mode", attrs.ceil_mode ? 1 : 0)};
  }
  void max_pool(const Node& node) {
    const std::string x = planes(node.inputs[0]);
    emit("MaxPool", {x}, new_planes(node.outputs[0]), window_of(node.attrs.as<Pool2dAttrs>()));
  }
  void avg_pool(const Node& node) {
    const auto& attrs = node.attrs.as<Pool2dAttrs>();
    const std::string x = planes(node.inputs[0]);
    std::vector<Attribute> window = window_of(attrs);
    window.push_back(integer("count_include_pad", attrs.count_include_pad ? 1 : 0));
    emit("AveragePool", {x}, new_planes(node.outputs[0]), std::move(window));
  }
  void global_pool(const Node& node) {
    const std::string out = new_plain(node.outputs[0]);
    const std::string pooled = emit("GlobalAveragePool", {planes(node.inputs[0])}, temporary(out));
    emit("Flatten", {pooled}, out, {integer("axis", 1)});
  }
  // Channels first: what flatten's own order means.
  void flatten(const Node& node) {
    const bool images = value(node.inputs[0]).shape.rank() == 4;
    const std::string x = images ? planes(node.inputs[0]) : plain(node.inputs[0]);
    emit("Flatten", {x}, new_plain(node.outputs[0]), {integer("axis", 1)});
  }

  void batch_norm(const Node& node) {
    const auto& attrs = node.attrs.as<BatchNormAttrs>();
    if (attrs.training)
      refuse(node, "it normalises by the batch's statistics; capture the model in eval mode");
    const int rank = value(node.inputs[0]).shape.rank();
    if (rank != 4 && rank != 2)
      refuse(node, "channels stand last and ONNX wants them second; reshape to [N,C]");
    const bool images = rank == 4;
    const auto name = [&](ValueId id) { return images ? planes(id) : plain(id); };
    const std::string x = name(node.inputs[0]);
    const bool has_residual = node.inputs.size() > 5 && node.inputs[5] != kNone;
    const std::string residual = has_residual ? name(node.inputs[5]) : "";
    const std::string out = images ? new_planes(node.outputs[0]) : new_plain(node.outputs[0]);
    std::string y =
        emit("BatchNormalization",
             {x, plain(node.inputs[1]), plain(node.inputs[2]), plain(node.inputs[3]), plain(node.inputs[4])},
             has_residual || attrs.relu ? temporary(out) : out, {number("epsilon", attrs.epsilon)});
    if (has_residual) y = emit("Add", {y, residual}, attrs.relu ? temporary(out) : out);
    if (attrs.relu) emit("Relu", {y}, out);
  }

  // Products.

  void linear(const Node& node) {
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
      activated(activation == Activation::kRelu ? "relu" : "gelu", result, out);
  }

  std::string with_last_axes_turned(ValueId id, const std::string& base) {
    std::vector<int64_t> order;
    for (int axis = 0; axis < value(id).shape.rank(); ++axis) order.push_back(axis);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return emit("Transpose", {plain(id)}, temporary(base), {ints("perm", order)});
  }
  void product(const Node& node) {
    const auto& attrs = node.attrs.as<MatmulAttrs>();
    const std::string out = new_plain(node.outputs[0]);
    const std::string a =
        attrs.transpose_a ? with_last_axes_turned(node.inputs[0], out) : plain(node.inputs[0]);
    const std::string b =
        attrs.transpose_b ? with_last_axes_turned(node.inputs[1], out) : plain(node.inputs[1]);
    emit("MatMul", {a, b}, out);
  }

  // [N,T,3*H*D] -> softmax(Q K^T / sqrt D) V, [N,T,H*D]
  void attention(const Node& node) {
    const auto& attrs = node.attrs.as<AttentionAttrs>();
    const AttentionShape shape(value(node.inputs[0]).shape, attrs);
    const std::string out = new_plain(node.outputs[0]);
    const std::string heads = integers({0, shape.length, shape.heads, shape.width});
    std::vector<std::string> parts;
    const std::string qkv = plain(node.inputs[0]);
    for (int64_t i = 0; i < 3; ++i) {
      const std::string part =
          emit("Slice",
               {qkv, integers({i * shape.out_row()}), integers({(i + 1) * shape.out_row()}), integers({2})},
               temporary(out));
      const std::string split = emit("Reshape", {part, heads}, temporary(out));
      const std::vector<int64_t> order =
          i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3};
      parts.push_back(emit("Transpose", {split}, temporary(out), {ints("perm", order)}));
    }
    std::string scores = emit("MatMul", {parts[0], parts[1]}, temporary(out));
    scores = emit("Mul", {scores, scalar(shape.scale)}, temporary(out));
    if (attrs.causal) scores = emit("Add", {scores, causal_mask(shape.length)}, temporary(out));
    const std::string weights = emit("Softmax", {scores}, temporary(out), {integer("axis", -1)});
    const std::string mixed = emit("MatMul", {weights, parts[2]}, temporary(out));
    const std::string rows = emit("Transpose", {mixed}, temporary(out), {ints("perm", {0, 2, 1, 3})});
    emit("Reshape", {rows, integers({0, shape.length, shape.out_row()})}, out);
  }
  std::string causal_mask(int64_t length) {
    std::vector<float> mask(static_cast<size_t>(length * length), 0.0F);
    for (int64_t row = 0; row < length; ++row) {
      for (int64_t column = row + 1; column < length; ++column)
        mask[static_cast<size_t>(row * length + column)] = -std::numeric_limits<float>::infinity();
    }
    return add_initializer(unused("causal"), ElementType::kFloat, {length, length}, mask.data(),
                           mask.size() * sizeof(float));
  }

  // Rows and reductions.

  void layer_norm_of(const std::string& x, const Node& node, size_t gamma, const std::string& out) {
    const auto& attrs = node.attrs.as<LayerNormAttrs>();
    emit("LayerNormalization", {x, plain(node.inputs[gamma]), plain(node.inputs[gamma + 1])}, out,
         {integer("axis", -1), number("epsilon", attrs.epsilon)});
  }
  void layer_norm(const Node& node) {
    const std::string x = plain(node.inputs[0]);
    layer_norm_of(x, node, 1, new_plain(node.outputs[0]));
  }
  void add_layer_norm(const Node& node) {
    const std::string x = plain(node.inputs[0]), branch = plain(node.inputs[1]);
    const std::string sum = emit("Add", {x, branch}, new_plain(node.outputs[0]));
    layer_norm_of(sum, node, 2, new_plain(node.outputs[1]));
  }
  void softmax(const Node& node) {
    const std::string x = plain(node.inputs[0]);
    emit(graph::is_op(node, "softmax") ? "Softmax" : "LogSoftmax", {x}, new_plain(node.outputs[0]),
         {integer("axis", node.attrs.as<SoftmaxAttrs>().axis)});
  }
  void reduction(const Node& node) {
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
  void maximum(const Node& node) {
    const auto& attrs = node.attrs.as<MaxAttrs>();
    const std::string x = plain(node.inputs[0]);
    emit("ReduceMax", {x}, new_plain(node.outputs[0]),
         {ints("axes", {attrs.axis}), integer("keepdims", attrs.keep_dims ? 1 : 0)});
  }

  // Shapes.

  void reshape(const Node& node) {
    const Shape& shape = node.attrs.as<ReshapeAttrs>().shape;
    std::vector<int64_t> sizes(shape.begin(), shape.end());
    int growing = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!(node.batch_sizes & bit(static_cast<int>(i)))) continue;
      sizes[i] = -1;
      ++growing;
    }
    if (growing > 1) refuse(node, "two of its sizes grow with the batch");
    const std::string x = plain(node.inputs[0]);
    emit("Reshape", {x, integers(sizes)}, new_plain(node.outputs[0]));
  }
  void expand(const Node& node) {
    const Shape& shape = node.attrs.as<ExpandAttrs>().shape;
    if (node.batch_sizes == 0) {
      const std::string x = plain(node.inputs[0]);
      emit("Expand", {x, integers({shape.begin(), shape.end()})}, new_plain(node.outputs[0]));
      return;
    }
    // The batch is what Shape says of an input's.
    std::vector<std::string> sizes;
    const std::string out = new_plain(node.outputs[0]);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      sizes.push_back(node.batch_sizes & bit(axis) ? batch_size(node, shape[axis], out)
                                                   : integers({shape[axis]}));
    }
    const std::string x = plain(node.inputs[0]);
    emit("Expand", {x, emit("Concat", sizes, temporary(out), {integer("axis", 0)})}, out);
  }
  // i64 [1]: `each` times the batch.
  std::string batch_size(const Node& node, int64_t each, const std::string& out) {
    for (const ValueId id : graph_.inputs) {
      for (int axis = 0; axis < value(id).shape.rank(); ++axis) {
        if (!(value(id).batch_axes & bit(axis)) || value(id).shape[axis] != 1) continue;
        const std::string shape = emit("Shape", {plain(id)}, temporary(out));
        const std::string batch =
            emit("Gather", {shape, integers({axis})}, temporary(out), {integer("axis", 0)});
        return each == 1 ? batch : emit("Mul", {batch, integers({each})}, temporary(out));
      }
    }
    refuse(node, "no input of the graph has the batch as an axis");
  }
  void transpose(const Node& node) {
    const std::vector<int>& order = node.attrs.as<TransposeAttrs>().permutation;
    const std::string x = plain(node.inputs[0]);
    emit("Transpose", {x}, new_plain(node.outputs[0]), {ints("perm", {order.begin(), order.end()})});
  }
  void slice(const Node& node) {
    const auto& attrs = node.attrs.as<SliceAttrs>();
    const std::string x = plain(node.inputs[0]);
    emit("Slice",
         {x, integers({attrs.begin}), integers({attrs.end}), integers({attrs.axis}), integers({attrs.step})},
         new_plain(node.outputs[0]));
  }
  void concatenate(const Node& node) {
    std::vector<std::string> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(plain(id));
    emit("Concat", std::move(inputs), new_plain(node.outputs[0]),
         {integer("axis", node.attrs.as<ConcatAttrs>().axis)});
  }
  void gather(const Node& node) {
    const std::string table = plain(node.inputs[0]), ids = plain(node.inputs[1]);
    emit("Gather", {table, ids}, new_plain(node.outputs[0]), {integer("axis", 0)});
  }

  const Graph& graph_;
  std::vector<Names> names_;
  std::set<std::string> taken_;
  std::set<std::string> written_constants_;
  Model model_;
};

}  // namespace

Model export_graph(const Graph& graph) {
  return Exporter(graph).run();
}

}  // namespace dlpipe::engine::onnx
