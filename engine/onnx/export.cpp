#include "dlpipe/onnx.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/graph/passes.h"
#include "engine/onnx/export_run.h"

namespace dlpipe::engine::onnx {

ElementType Exporter::type_of(DType dtype) {
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

Attribute Exporter::ints(std::string name, std::vector<int64_t> values) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kInts};
  attribute.ints = std::move(values);
  return attribute;
}

Attribute Exporter::integer(std::string name, int64_t value) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kInt};
  attribute.i = value;
  return attribute;
}

Attribute Exporter::number(std::string name, double value) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kFloat};
  attribute.f = static_cast<float>(value);
  return attribute;
}

Attribute Exporter::text(std::string name, std::string_view value) {
  Attribute attribute{.name = std::move(name), .type = Attribute::kString};
  attribute.s = value;
  return attribute;
}

Model Exporter::run() {
  constexpr int64_t kOpset = 17;
  model_.producer = "dlpipe";
  model_.opsets[""] = kOpset;
  model_.metadata = graph_.metadata;
  model_.graph_name = graph_.name.empty() ? "graph" : graph_.name;
  for (const graph::Value& value : graph_.values) {
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

void Exporter::export_node(const Node& node) {
  static const std::map<std::string_view, Method> kMethods = {
      {"add", &Exporter::binary},
      {"add_layer_norm", &Exporter::add_layer_norm},
      {"add_relu", &Exporter::sum_relu},
      {"avg_pool2d", &Exporter::avg_pool},
      {"batch_norm", &Exporter::batch_norm},
      {"cast", &Exporter::cast_to},
      {"concat", &Exporter::concatenate},
      {"conv2d", &Exporter::convolution},
      {"conv_pair", &Exporter::convolution_pair},
      {"conv_transpose2d", &Exporter::convolution_transpose},
      {"conv_unit", &Exporter::convolution_unit},
      {"clip", &Exporter::unary},
      {"cos", &Exporter::unary},
      {"div", &Exporter::binary},
      {"embedding", &Exporter::gather},
      {"equal", &Exporter::comparison},
      {"erf", &Exporter::unary},
      {"exp", &Exporter::unary},
      {"expand", &Exporter::expand},
      {"flatten", &Exporter::flatten},
      {"gelu", &Exporter::unary},
      {"global_avg_pool", &Exporter::global_pool},
      {"greater", &Exporter::comparison},
      {"layer_norm", &Exporter::layer_norm},
      {"linear", &Exporter::linear},
      {"log", &Exporter::unary},
      {"log_softmax", &Exporter::softmax},
      {"mask", &Exporter::masked},
      {"matmul", &Exporter::product},
      {"max", &Exporter::maximum},
      {"max_pool2d", &Exporter::max_pool},
      {"maximum", &Exporter::binary},
      {"mean", &Exporter::reduction},
      {"minimum", &Exporter::binary},
      {"mul", &Exporter::binary},
      {"relu", &Exporter::unary},
      {"reshape", &Exporter::reshape},
      {"resize", &Exporter::resize},
      {"scale", &Exporter::unary},
      {"self_attention", &Exporter::attention},
      {"sigmoid", &Exporter::unary},
      {"silu", &Exporter::unary},
      {"sin", &Exporter::unary},
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
    refuse(node, "ONNX has no such op for inference; leave it out of the captured code");
  (this->*method->second)(node);
}

std::string Exporter::unused(const std::string& base) {
  std::string name = base;
  for (int i = 2; !taken_.insert(name).second; ++i) name = concat(base, "_", i);
  return name;
}

ValueInfo Exporter::info_of(ValueId id, const std::string& name) const {
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

void Exporter::add_output(ValueId id) {
  std::string name = plain(id);
  const bool is_own = !value(id).is_constant() &&
                      std::none_of(model_.inputs.begin(), model_.inputs.end(),
                                   [&](const ValueInfo& input) { return input.name == name; }) &&
                      std::none_of(model_.outputs.begin(), model_.outputs.end(),
                                   [&](const ValueInfo& output) { return output.name == name; });
  if (!is_own) name = emit("Identity", {name}, unused(concat(name, ".out")));
  model_.outputs.push_back(info_of(id, name));
}

std::string Exporter::emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                           std::vector<Attribute> attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  model_.nodes.push_back({op,
                          "",
                          concat("n", model_.nodes.size(), ".", op),
                          std::move(inputs),
                          {output},
                          std::move(attributes)});
  return output;
}

std::string Exporter::add_initializer(const std::string& name, ElementType type, std::vector<int64_t> dims,
                                      const void* data, size_t bytes) {
  model_.initializers.push_back(
      {name, type, std::move(dims), std::string(static_cast<const char*>(data), bytes)});
  return name;
}

std::string Exporter::scalar(double number, DType dtype) {
  return add_constant(unused("scalar"), Tensor::full({}, number, dtype));
}

std::string Exporter::integers(const std::vector<int64_t>& values) {
  return add_initializer(unused("integers"), ElementType::kInt64, {static_cast<int64_t>(values.size())},
                         values.data(), values.size() * sizeof(int64_t));
}

std::string Exporter::add_constant(const std::string& name, const Tensor& tensor) {
  const Tensor row_major = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
  return add_initializer(name, type_of(tensor.dtype()), {tensor.shape().begin(), tensor.shape().end()},
                         row_major.raw(), row_major.size_bytes());
}

std::string Exporter::plain(ValueId id) {
  if (id == graph::kNone) return "";
  std::string& name = names_[index(id)].plain;
  if (!name.empty()) return name;
  if (value(id).is_constant()) return name = add_constant(unused_constant(id), value(id).constant);
  return name = emit("Transpose", {names_[index(id)].planes}, unused(value(id).name),
                     {ints("perm", {0, 2, 3, 1})});
}

std::string Exporter::planes(ValueId id) {
  std::string& name = names_[index(id)].planes;
  if (!name.empty()) return name;
  const std::string from = plain(id);
  return name = emit("Transpose", {from}, unused(concat(value(id).name, ".planes")),
                     {ints("perm", {0, 3, 1, 2})});
}

std::string Exporter::unused_constant(ValueId id) {
  const std::string& name = value(id).name;
  return written_constants_.insert(name).second ? name : unused(name);
}

std::string Exporter::new_planes(ValueId id) {
  return names_[index(id)].planes = unused(concat(value(id).name, ".planes"));
}

void Exporter::refuse(const Node& node, std::string_view why) const {
  throw Error(Status(ErrorCode::kUnsupported, concat("[onnx] '", value(node.outputs[0]).name, "' (",
                                                     node.op->record->name, ") can't be exported: ", why)));
}

Model export_graph(const graph::Graph& graph) {
  const graph::Graph plain = graph::without_chains(graph);
  return Exporter(plain).run();
}

}  // namespace dlpipe::engine::onnx
