#include "dlpipe/engine/onnx/import.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/graph/capture.h"
#include "dlpipe/engine/onnx/import_run.h"
#include "dlpipe/engine/onnx/tensor_message.h"

namespace dlpipe::engine::onnx {

namespace {

bool is_integer(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32 || type == ElementType::kBool ||
         type == ElementType::kUint8 || type == ElementType::kInt8;
}

template <class T>
T element(const std::string& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

int64_t integer_at(const TensorValue& tensor, size_t i) {
  switch (tensor.type) {
    case ElementType::kInt64:
      return element<int64_t>(tensor.bytes, i);
    case ElementType::kInt32:
      return element<int32_t>(tensor.bytes, i);
    case ElementType::kInt8:
      return element<int8_t>(tensor.bytes, i);
    default:
      return element<uint8_t>(tensor.bytes, i);
  }
}

float float_at(const TensorValue& tensor, size_t i) {
  switch (tensor.type) {
    case ElementType::kFloat:
      return element<float>(tensor.bytes, i);
    case ElementType::kDouble:
      return static_cast<float>(element<double>(tensor.bytes, i));
    case ElementType::kFloat16:
      return static_cast<float>(element<Float16>(tensor.bytes, i));
    default:
      return static_cast<float>(element<BFloat16>(tensor.bytes, i));
  }
}

// `name` is what errors call it: a tensor inside a node has none of its own.
RunValue value_of(const std::string& name, const TensorValue& tensor) {
  if (tensor.dims.size() > static_cast<size_t>(Shape::kMaxRank)) {
    throw Error(
        Status(ErrorCode::kUnsupported, dlpipe::concat("[onnx] tensor '", name, "' has ", tensor.dims.size(),
                                                       " axes; dlpipe takes ", Shape::kMaxRank)));
  }
  throw_if_error(check_bytes(name, tensor));
  RunValue value;
  const auto count = static_cast<size_t>(tensor.elements());
  if (is_integer(tensor.type)) {
    KnownInts ints{tensor.dims, {}};
    for (size_t i = 0; i < count; ++i) ints.values.push_back(integer_at(tensor, i));
    value.ints = std::move(ints);
    return value;
  }
  value.tensor = Tensor::empty(Shape(std::span<const int64_t>(tensor.dims)));
  for (size_t i = 0; i < count; ++i) value.tensor.data<float>()[i] = float_at(tensor, i);
  return value;
}

Tensor tensor_of(const KnownInts& ints) {
  Tensor tensor = Tensor::empty(Shape(std::span<const int64_t>(ints.dims)), DType::kI64);
  tensor.copy_from_host(ints.values.data(), ints.values.size() * sizeof(int64_t));
  return tensor;
}

std::array<std::span<const ImportedOp>, 8> all_ops() {
  return {arithmetic_ops(), copy_ops(),   image_ops(), math_ops(),
          norm_ops(),       resize_ops(), shape_ops(), size_ops()};
}

const ImportedOp* find_op(const NodeEntry& node) {
  if (!node.domain.empty() && node.domain != "ai.onnx") return nullptr;
  const std::string& name = node.op;
  for (const std::span<const ImportedOp> ops : all_ops()) {
    const auto found =
        std::find_if(ops.begin(), ops.end(), [&](const ImportedOp& op) { return op.name == name; });
    if (found != ops.end()) return &*found;
  }
  return nullptr;
}

DType input_dtype(const ValueInfo& info) {
  if (info.type == ElementType::kInt64 || info.type == ElementType::kInt32) return DType::kI64;
  if (info.type == ElementType::kFloat || info.type == ElementType::kFloat16 ||
      info.type == ElementType::kDouble || info.type == ElementType::kBFloat16)
    return DType::kF32;
  throw Error(Status(ErrorCode::kUnsupported,
                     dlpipe::concat("[onnx] input '", info.name, "' has elements of type ",
                                    element_type_name(info.type), "; dlpipe takes floats, int64 and int32")));
}

int64_t opset_of(const Model& model) {
  const auto opset = model.opsets.find("");
  return opset == model.opsets.end() ? 1 : opset->second;
}

// Before opset 7 operands were stretched by attributes; what ops mean after the newest of these isn't known.
Status check_opset(const Model& model) {
  constexpr int64_t kOldest = 7, kNewest = 28;
  const int64_t opset = opset_of(model);
  if (opset >= kOldest && opset <= kNewest) return Status();
  return Status(
      ErrorCode::kUnsupported,
      dlpipe::concat("[onnx] the model is of opset ", opset, "; dlpipe takes ", kOldest, " to ", kNewest,
                     "; export it with one of them, or convert it (onnx.version_converter)"));
}

// What --input-shape may be given for it.
std::string shape_example(const ValueInfo& info) {
  std::string text;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const int64_t size = info.dims[axis].size, usual = info.dims.size() == 4 ? 224 : 128;
    text += axis == 0 && size < 0 ? "N" : dlpipe::concat(axis == 0 ? "" : ",", size < 0 ? usual : size);
  }
  return dlpipe::concat(info.name, "=", info.dims.empty() ? "N,3,224,224" : text);
}

void set_shapes(std::vector<ValueInfo>& inputs, const ImportOptions& options) {
  for (const auto& shape : options.shapes) {
    const std::string& name = shape.first;
    const std::vector<int64_t>& sizes = shape.second;
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const ValueInfo& info) { return info.name == name; });
    if (input == inputs.end()) {
      std::string names;
      for (const ValueInfo& info : inputs) names += dlpipe::concat(names.empty() ? "" : ", ", info.name);
      dlpipe::refuse("onnx", "there is no input '", name, "' to give a shape; the model has ", names);
    }
    ValueInfo given = *input;
    if (!given.has_shape) given.dims.resize(sizes.size());
    given.has_shape = true;
    bool fits = sizes.size() == given.dims.size();
    for (size_t axis = 0; fits && axis < sizes.size(); ++axis) {
      ValueInfo::Dim& dim = given.dims[axis];
      const bool is_batch = axis == 0 && sizes[0] == kAnyBatch;
      fits = is_batch || (sizes[axis] >= 0 && (dim.size < 0 || dim.size == sizes[axis]));
      dim.size = sizes[axis];
    }
    if (!fits)
      dlpipe::refuse("onnx", "input '", name, "' has the shape ", shape_text(*input),
                     ", which the given sizes don't fit; give a size for each axis, those that it has as "
                     "they are (the first may be N)");
    *input = std::move(given);
  }
}

std::vector<graph::CaptureInput> inputs_of(const Model& model, const ImportOptions& options) {
  std::vector<ValueInfo> infos = open_inputs(model);
  set_shapes(infos, options);
  std::vector<graph::CaptureInput> inputs;
  constexpr int64_t kMostElements = int64_t{1} << 32;
  for (const ValueInfo& info : infos) {
    graph::CaptureInput input{info.name, {{}, input_dtype(info)}, 0};
    if (!info.has_shape)
      throw Error(Status(
          ErrorCode::kUnsupported,
          dlpipe::concat("[onnx] input '", info.name,
                         "' has no shape; give it: dlpipe compile --input-shape ", shape_example(info))));
    if (info.dims.size() > static_cast<size_t>(Shape::kMaxRank))
      throw Error(Status(ErrorCode::kUnsupported,
                         dlpipe::concat("[onnx] input '", info.name, "' has ", info.dims.size(),
                                        " axes; dlpipe takes ", Shape::kMaxRank)));
    int64_t elements = 1;
    for (size_t axis = 0; axis < info.dims.size(); ++axis) {
      const bool is_batch = axis == 0 && info.dims[0].size < 0;
      const int64_t size = is_batch ? 1 : info.dims[axis].size;
      if (size < 0) {
        throw Error(Status(
            ErrorCode::kUnsupported,
            dlpipe::concat(
                "[onnx] axis ", axis, " of input '", info.name, "' has no size ('", info.dims[axis].symbol,
                "'); only the first may vary: give the others, as in dlpipe compile --input-shape ",
                shape_example(info), ", or export the model with them fixed")));
      }
      if (size > 0 && elements > kMostElements / size)
        throw Error(Status(
            ErrorCode::kCorrupt,
            dlpipe::concat("[onnx] input '", info.name, "' has impossible sizes; export the model again")));
      elements *= std::max<int64_t>(size, 1);
      input.sample.shape.push_back(size);
      if (is_batch) input.batch_axes = bit(0);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Each name is given by one alone, and before a node reads it: of a file that breaks this rule of ONNX's, what a node reads
// would depend on the order of nodes.
void check_names(const Model& model) {
  std::map<std::string, std::string> makers;
  const auto make = [&](const std::string& name, const std::string& maker) {
    const auto [at, is_new] = makers.emplace(name, maker);
    if (is_new) return;
    throw Error(Status(ErrorCode::kCorrupt,
                       dlpipe::concat("[onnx] '", name, "' is made twice, by ", at->second, " and by ", maker,
                                      "; give each value a name of its own, or export the model again")));
  };
  for (const TensorValue& tensor : model.initializers) make(tensor.name, "an initializer");
  const auto initializers = makers;  // an input may have one, as its default
  for (const ValueInfo& info : model.inputs) {
    if (!initializers.contains(info.name)) make(info.name, "the model's input");
  }
  for (const NodeEntry& node : model.nodes) {
    for (const std::string& name : node.inputs) {
      if (name.empty() || makers.contains(name)) continue;
      throw Error(Status(ErrorCode::kCorrupt,
                         dlpipe::concat("[onnx] ", node_text(node), " reads '", name,
                                        "', which no node before it makes; export the model again")));
    }
    for (const std::string& name : node.outputs) {
      if (!name.empty()) make(name, node_text(node));
    }
  }
}

const std::string& name_of(const NodeEntry& node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
}

// All that are missing, so that who exports the model again learns of them at once.
void check_ops(const Model& model) {
  std::map<std::string, std::pair<int, const NodeEntry*>> missing;
  for (const NodeEntry& node : model.nodes) {
    if (find_op(node) != nullptr) continue;
    auto& [count, first] = missing[node.domain.empty() ? node.op : dlpipe::concat(node.domain, ".", node.op)];
    if (count++ == 0) first = &node;
  }
  if (missing.empty()) return;
  std::string ops;
  for (const auto& [name, where] : missing) {
    const NodeEntry& first = *where.second;
    ops += dlpipe::concat(ops.empty() ? "" : ", ", name, " (",
                          where.first == 1 ? "" : dlpipe::concat(where.first, " nodes, the first is "), "'",
                          name_of(first), "')");
  }
  throw Error(Status(ErrorCode::kUnsupported,
                     dlpipe::concat("[onnx] dlpipe has no such op", missing.size() == 1 ? ": " : "s: ", ops,
                                    "; dlpipe compile --list-onnx-ops lists those that it has")));
}

void name_outputs(graph::Graph& graph, const Model& model) {
  std::set<std::string> taken;
  for (const graph::Value& value : graph.values) taken.insert(value.name);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    graph::Value& value = graph.value(graph.outputs[i]);
    const bool is_input =
        std::find(graph.inputs.begin(), graph.inputs.end(), graph.outputs[i]) != graph.inputs.end();
    if (!is_input && !value.is_constant() && taken.insert(model.outputs[i].name).second)
      value.name = model.outputs[i].name;
  }
}

}  // namespace

std::string node_text(const NodeEntry& node) {
  return dlpipe::concat("node '", name_of(node), "' (", node.op, ")");
}

Tensor planes_of(const Tensor& image) {
  return transpose(image, {0, 3, 1, 2});
}
Tensor image_of(const Tensor& planes) {
  return transpose(planes, {0, 2, 3, 1});
}

Constants::Constants(const Model& model) {
  for (const TensorValue& tensor : model.initializers)
    values_.emplace(tensor.name, value_of(tensor.name, tensor));
}

std::vector<std::pair<std::string, Tensor>> Constants::named_tensors() const {
  std::vector<std::pair<std::string, Tensor>> named;
  for (const auto& [name, value] : values_) {
    if (value.tensor.defined()) named.emplace_back(name, value.tensor);
  }
  return named;
}

const RunValue& Constants::of(const std::string& name, const TensorValue& tensor) {
  const auto known = values_.find(name);
  return known != values_.end() ? known->second : values_.emplace(name, value_of(name, tensor)).first->second;
}

Run::Run(const Model& model, Constants& constants, std::span<const Tensor> inputs)
    : model_(model), constants_(constants), opset_(opset_of(model)), values_(constants.values()) {
  size_t next = 0;
  for (const ValueInfo& info : model.inputs) {
    if (values_.contains(info.name)) continue;
    values_[info.name].tensor = inputs[next++];
  }
}

std::vector<Tensor> Run::run() {
  for (const NodeEntry& node : model_.nodes) {
    try {
      find_op(node)->call(*this, node);
    } catch (const Error& error) {  // what an op refuses is no misuse of who brought the file
      if (error.code() != ErrorCode::kMisuse) throw;
      refuse(node, without_area(error.status().message()));
    }
  }
  std::vector<Tensor> outputs;
  for (const ValueInfo& info : model_.outputs) {
    const auto found = values_.find(info.name);
    if (found == values_.end())
      throw Error(Status(ErrorCode::kCorrupt, dlpipe::concat("[onnx] no node makes the output '", info.name,
                                                             "'; export the model again")));
    const RunValue& value = found->second;
    outputs.push_back(value.ints       ? tensor_of(*value.ints)
                      : value.is_image ? planes_of(value.tensor)
                                       : value.tensor);
  }
  return outputs;
}

const RunValue& Run::value(const NodeEntry& node, size_t i) const {
  if (!has(node, i))
    throw Error(Status(ErrorCode::kCorrupt,
                       dlpipe::concat("[onnx] ", node_text(node), " has ", node.inputs.size(),
                                      " inputs; it needs number ", i, "; export the model again")));
  const auto found = values_.find(node.inputs[i]);
  if (found == values_.end())  // of the names that check_names found, an output that dlpipe doesn't compute
    refuse(node, "reads '", node.inputs[i], "', an output that dlpipe doesn't compute");
  return found->second;
}

Tensor Run::tensor(const NodeEntry& node, size_t i) {
  const RunValue& given = value(node, i);
  if (!given.ints) return given.is_image ? planes_of(given.tensor) : given.tensor;
  RunValue& kept = values_.at(node.inputs[i]);
  if (!kept.tensor.defined()) kept.tensor = tensor_of(*given.ints);
  return kept.tensor;
}

Tensor Run::image(const NodeEntry& node, size_t i) {
  const RunValue& given = value(node, i);
  if (given.is_image) return given.tensor;
  if (shape(node, i).rank() != 4)
    refuse(node, "expected images [N,C,H,W] as input ", i, ", got ", shape(node, i).to_string());
  return image_of(tensor(node, i));
}

const KnownInts& Run::ints(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (!given.ints) refuse(node, "input ", i, " depends on the values of the model's input; only sizes may");
  return *given.ints;
}

Shape Run::shape(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (given.ints) return Shape(std::span<const int64_t>(given.ints->dims));
  const Shape& own = given.tensor.shape();
  return given.is_image ? Shape{own[0], own[3], own[1], own[2]} : own;
}

double Run::number(const NodeEntry& node, size_t i) const {
  const std::optional<double> known = known_number(node, i);
  if (!known) refuse(node, "input ", i, " is not one number that is known before the model runs");
  return *known;
}
std::optional<double> Run::known_number(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (given.ints && given.ints->values.size() == 1) return static_cast<double>(given.ints->values[0]);
  const bool is_constant = constants_.values().contains(node.inputs[i]);
  if (given.ints || !is_constant || given.tensor.elements() != 1) return std::nullopt;
  return given.tensor.item();
}

// A name that stands for a constant's (Identity) has that one's tensor.
std::vector<double> Run::numbers(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (given.ints) return {given.ints->values.begin(), given.ints->values.end()};
  const auto& constants = constants_.values();
  const bool is_constant = std::any_of(constants.begin(), constants.end(), [&](const auto& constant) {
    const Tensor& tensor = constant.second.tensor;
    return tensor.defined() && tensor.raw() == given.tensor.raw() && tensor.shape() == given.tensor.shape();
  });
  if (!is_constant) refuse(node, "input ", i, " is not known before the model runs");
  return given.tensor.to_doubles();
}

void Run::set_value(const NodeEntry& node, RunValue value, size_t output) {
  if (output >= node.outputs.size()) return;
  values_[node.outputs[output]] = std::move(value);
}
void Run::set(const NodeEntry& node, Tensor tensor, size_t output) {
  set_value(node, {std::move(tensor)}, output);
}
void Run::set_image(const NodeEntry& node, Tensor tensor) {
  set_value(node, {std::move(tensor), true});
}
void Run::set_like_input(const NodeEntry& node, Tensor tensor) {
  set_value(node, {std::move(tensor), value(node, 0).is_image});
}
void Run::set_ints(const NodeEntry& node, KnownInts ints, size_t output) {
  constexpr size_t kMost = 1 << 24;
  if (ints.values.size() > kMost) refuse(node, "it makes more than ", kMost, " integers");
  if (ints.dims.size() > static_cast<size_t>(Shape::kMaxRank))
    refuse(node, "it makes integers of ", ints.dims.size(), " axes; dlpipe takes ", Shape::kMaxRank);
  size_t elements = 1;
  for (const int64_t size : ints.dims) {
    if (size < 0 || (size > 0 && elements > kMost / static_cast<size_t>(size)))
      refuse(node, "impossible sizes");
    elements *= static_cast<size_t>(size);
  }
  if (elements != ints.values.size())
    refuse(node, "it makes ", ints.values.size(), " integers where its sizes say ", elements);
  set_value(node, {{}, false, std::move(ints)}, output);
}

const Attribute* Run::find(const NodeEntry& node, std::string_view name) const {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [&](const Attribute& attribute) { return attribute.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}
int64_t Run::attribute(const NodeEntry& node, std::string_view name, int64_t otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : found->i;
}
double Run::attribute(const NodeEntry& node, std::string_view name, double otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : static_cast<double>(found->f);
}
std::string Run::attribute(const NodeEntry& node, std::string_view name, const char* otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : found->s;
}
std::vector<int64_t> Run::attribute(const NodeEntry& node, std::string_view name,
                                    std::vector<int64_t> otherwise) const {
  const Attribute* const found = find(node, name);
  if (found == nullptr) return otherwise;
  return found->ints;
}
std::vector<int64_t> Run::ints_or_attribute(const NodeEntry& node, size_t i, std::string_view name,
                                            std::vector<int64_t> otherwise) const {
  return has(node, i) ? ints(node, i).values : attribute(node, name, std::move(otherwise));
}

int Run::axis(const NodeEntry& node, int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    refuse(node, "axis ", axis, " of a tensor with ", rank, " axes; export the model again");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
std::vector<int> Run::axes(const NodeEntry& node, std::span<const int64_t> axes, int rank) const {
  std::vector<int> from_front;
  from_front.reserve(axes.size());
  for (const int64_t one : axes) from_front.push_back(axis(node, one, rank));
  return from_front;
}

const RunValue& Run::constant(const NodeEntry& node, const TensorValue& tensor) {
  return constants_.of(node.outputs.empty() ? "" : node.outputs[0], tensor);
}

graph::Graph import_model(const Model& model, const ImportOptions& options) {
  throw_if_error(check_opset(model));
  check_names(model);
  check_ops(model);
  Constants constants(model);
  const std::vector<graph::CaptureInput> inputs = inputs_of(model, options);
  if (model.outputs.empty())
    throw Error(Status(ErrorCode::kCorrupt, "[onnx] the model has no output; export it again"));
  std::vector<std::pair<std::string, Tensor>> weights = constants.named_tensors();
  graph::Graph graph =
      graph::capture(model.graph_name, inputs, weights,
                     [&](const std::vector<Tensor>& given) { return Run(model, constants, given).run(); });
  name_outputs(graph, model);
  graph.metadata = model.metadata;
  return graph;
}

std::vector<ValueInfo> open_inputs(const Model& model) {
  std::set<std::string> given;
  for (const TensorValue& tensor : model.initializers) given.insert(tensor.name);
  std::vector<ValueInfo> inputs;
  for (const ValueInfo& info : model.inputs) {
    if (!given.contains(info.name)) inputs.push_back(info);
  }
  return inputs;
}

std::vector<std::string> imported_ops() {
  std::vector<std::string> names;
  for (const std::span<const ImportedOp> ops : all_ops()) {
    for (const ImportedOp& op : ops) names.emplace_back(op.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dlpipe::engine::onnx
