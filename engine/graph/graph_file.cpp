#include "engine/graph/graph_file.h"
#include "dlpipe/graph.h"

#include <cmath>
#include <set>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/tensor.h"
#include "engine/core/attr_form.h"
#include "io/formats/json.h"
#include "io/formats/safetensors.h"

namespace dlpipe::engine::graph {

namespace {

using formats::Json;

constexpr int kVersion = 1;
constexpr std::string_view kKey = "dlpipe.graph";
constexpr std::string_view kChecksumKey = "dlpipe.checksum";
constexpr std::string_view kMetadataPrefix = "dlpipe.";
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr size_t kMostValues = 1 << 20;

Json integers(std::span<const int64_t> values) {
  return Json(Json::Array(values.begin(), values.end()));
}
Json ids_json(std::span<const ValueId> ids) {
  Json array = Json::array();
  for (const ValueId id : ids) array.push_back(static_cast<int64_t>(id));
  return array;
}
Json axes_json(uint32_t axes) {
  Json array = Json::array();
  for (int i = 0; i < 32; ++i) {
    if (axes & bit(i)) array.push_back(i);
  }
  return array;
}

// JSON has no infinities or NaN: they are written as strings.
Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json attrs_json(const Node& node) {
  Json object = Json::object();
  for (const NamedAttr& attr : list_attrs(*node.op->record, node.attrs)) {
    Json value;
    if (const auto* const flag = std::get_if<bool>(&attr.value)) value = *flag;
    if (const auto* const whole = std::get_if<int64_t>(&attr.value)) value = *whole;
    if (const auto* const number = std::get_if<double>(&attr.value))
      value = Json::object({{"f64", number_json(*number)}});
    if (const auto* const text = std::get_if<std::string>(&attr.value)) value = *text;
    if (const auto* const list = std::get_if<std::vector<int64_t>>(&attr.value)) value = integers(*list);
    object.set(attr.name, std::move(value));
  }
  return object;
}

// Reads one JSON text; every error names the file.
class Reader {
 public:
  Reader(const std::map<std::string, Tensor>& constants, const std::string& file)
      : constants_(constants), file_(file) {}

  Graph read(const Json& json) {
    if (!json.is_object()) corrupt("is not a JSON object");
    if (json["version"] != Json(kVersion)) {
      throw Error(
          Status(ErrorCode::kUnsupported,
                 concat("[graph] ", file_, " has version ", json["version"].dump(), ", this dlpipe reads ",
                        kVersion, "; compile the model again or update dlpipe")));
    }
    graph_.name = text(json["name"], "name");
    for (const Json& value : list(json["values"], "values")) read_value(value);
    for (const Json& node : list(json["nodes"], "nodes")) read_node(node);
    graph_.inputs = ids(json["inputs"], false);
    graph_.outputs = ids(json["outputs"], false);
    if (json.contains("aliases")) read_aliases(json["aliases"]);
    check(graph_);
    check_memory(graph_, file_);
    return std::move(graph_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void corrupt(const Parts&... parts) const {
    throw Error(Status(ErrorCode::kCorrupt,
                       concat("[graph] the graph in ", file_, " ", parts..., "; compile the model again")));
  }

  const Json::Array& list(const Json& json, std::string_view what) const {
    if (!json.is_array()) corrupt("lacks the list '", what, "'");
    if (json.items().size() > kMostValues) corrupt("has more than ", kMostValues, " ", what);
    return json.items();
  }
  const std::string& text(const Json& json, std::string_view what) const {
    if (!json.is_string()) corrupt("lacks the text '", what, "'");
    return json.as_string();
  }
  int64_t whole(const Json& json, int64_t least, int64_t most, std::string_view what) const {
    if (!json.is_integer() || json.as_int() < least || json.as_int() > most)
      corrupt("has ", printable(json.dump().substr(0, 80)), " as ", what, ", expected ", least, " to ", most);
    return json.as_int();
  }
  std::vector<ValueId> ids(const Json& json, bool may_be_absent) const {
    std::vector<ValueId> read;
    for (const Json& one : list(json, "values of a node")) {
      read.push_back(static_cast<ValueId>(
          whole(one, may_be_absent ? kNone : 0, static_cast<int64_t>(graph_.values.size()) - 1, "a value")));
    }
    return read;
  }
  uint32_t axes(const Json& json, int rank) const {
    uint32_t read = 0;
    for (const Json& one : list(json, "axes"))
      read |= bit(static_cast<int>(whole(one, 0, rank - 1, "an axis of the batch")));
    return read;
  }
  DType dtype(const Json& json) const {
    for (const DType one :
         {DType::kF32, DType::kF64, DType::kBF16, DType::kU8, DType::kI32, DType::kI64, DType::kF16}) {
      if (dtype_name(one) == text(json, "dtype")) return one;
    }
    corrupt("has the unknown dtype '", json.as_string(), "'");
  }

  void read_value(const Json& json) {
    Value value;
    value.name = text(json["name"], "name of a value");
    if (json.contains("constant")) {
      const std::string& name = text(json["constant"], "constant");
      const auto found = constants_.find(name);
      if (found == constants_.end()) corrupt("needs the tensor '", name, "', which is not in the file");
      value.constant = found->second;
      if (json.contains("trained")) {
        if (!json["trained"].is_bool()) corrupt("has a constant whose 'trained' is neither true nor false");
        value.trained = json["trained"].as_bool();
      }
      value.shape = found->second.shape();
      value.dtype = found->second.dtype();
    } else {
      value.dtype = dtype(json["dtype"]);
      int64_t elements = 1;
      for (const Json& size : list(json["shape"], "shape")) {
        if (value.shape.rank() == Shape::kMaxRank)
          corrupt("has a value of more than ", Shape::kMaxRank, " axes");
        value.shape.push_back(whole(size, 0, kMostElements, "a size"));
        const int64_t last = std::max<int64_t>(value.shape[-1], 1);
        if (elements > kMostElements / last) corrupt("has a value of more than ", kMostElements, " elements");
        elements *= last;
      }
      value.batch_axes = axes(json["batch"], value.shape.rank());
    }
    graph_.values.push_back(std::move(value));
  }

  void read_aliases(const Json& json) {
    if (!json.is_object()) corrupt("has aliases that are not an object");
    for (const auto& [alias, name] : json.members()) graph_.aliases[alias] = text(name, "alias");
  }

  void read_node(const Json& json) {
    Node node;
    const std::string& name = text(json["op"], "op");
    Result<const OpRow*> row = OpRegistry::builtin().find(name);
    if (!row.ok()) {
      throw Error(
          Status(ErrorCode::kUnsupported, concat("[graph] ", file_, " uses the op '", name,
                                                 "', which this dlpipe doesn't have; update dlpipe")));
    }
    node.op = *row;
    std::vector<NamedAttr> attrs;
    if (!json["attrs"].is_object()) corrupt("has a node without attributes");
    for (const auto& [key, value] : json["attrs"].members()) attrs.push_back({key, attr(value)});
    node.attrs = make_attrs(*node.op->record, attrs);
    for (const NamedAttr& one : attrs) {
      if (one.name != "shape") continue;
      const auto* const sizes = std::get_if<std::vector<int64_t>>(&one.value);
      if (sizes != nullptr && json.contains("batch"))
        node.batch_sizes = axes(json["batch"], static_cast<int>(sizes->size()));
    }
    node.inputs = ids(json["in"], true);
    node.outputs = ids(json["out"], false);
    graph_.nodes.push_back(std::move(node));
  }

  AttrValue attr(const Json& json) const {
    if (json.is_bool()) return json.as_bool();
    if (json.is_integer()) return json.as_int();
    if (json.is_string()) return json.as_string();
    if (json.is_object()) {
      const Json& number = json["f64"];
      if (number.is_number()) return number.as_double();
      if (number == Json("nan")) return std::nan("");
      if (number == Json("inf")) return HUGE_VAL;
      if (number == Json("-inf")) return -HUGE_VAL;
      corrupt("has an attribute that is not a number");
    }
    std::vector<int64_t> values;
    for (const Json& one : list(json, "attribute"))
      values.push_back(whole(one, -kMostElements, kMostElements, "an attribute"));
    return values;
  }

  const std::map<std::string, Tensor>& constants_;
  const std::string& file_;
  Graph graph_;
};

}  // namespace

std::vector<std::string> constant_names(const Graph& graph) {
  std::vector<std::string> names(graph.values.size());
  std::set<std::string> taken;
  std::map<std::string, int> next;  // counter of values with the same name
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!graph.values[i].is_constant()) continue;
    names[i] = graph.values[i].name;
    for (int& number = next.try_emplace(names[i], 2).first->second; !taken.insert(names[i]).second; ++number)
      names[i] = concat(graph.values[i].name, "_", number);
  }
  return names;
}

std::string graph_json(const Graph& graph) {
  const std::vector<std::string> names = constant_names(graph);
  Json values = Json::array();
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.is_constant()) {
      Json constant = Json::object({{"name", value.name}, {"constant", names[i]}});
      if (value.trained) constant.set("trained", *value.trained);
      values.push_back(std::move(constant));
    } else {
      values.push_back(Json::object({{"name", value.name},
                                     {"dtype", dtype_name(value.dtype)},
                                     {"shape", integers(value.shape.dims())},
                                     {"batch", axes_json(value.batch_axes)}}));
    }
  }
  Json nodes = Json::array();
  for (const Node& node : graph.nodes) {
    Json json = Json::object({{"op", node.op->record->name},
                              {"in", ids_json(node.inputs)},
                              {"out", ids_json(node.outputs)},
                              {"attrs", attrs_json(node)}});
    if (node.batch_sizes != 0) json.set("batch", axes_json(node.batch_sizes));
    nodes.push_back(std::move(json));
  }
  Json json = Json::object({{"version", kVersion},
                            {"name", graph.name},
                            {"inputs", ids_json(graph.inputs)},
                            {"outputs", ids_json(graph.outputs)},
                            {"values", std::move(values)},
                            {"nodes", std::move(nodes)}});
  if (!graph.aliases.empty()) {
    Json aliases = Json::object({});
    for (const auto& [alias, name] : graph.aliases) aliases.set(alias, name);
    json.set("aliases", std::move(aliases));
  }
  return json.dump();
}

Result<Graph> parse_graph(std::string_view json, const std::map<std::string, Tensor>& constants,
                          const std::string& file) {
  const Result<Json> parsed = Json::parse(json);
  Status wrong = parsed.status();
  try {
    if (wrong.ok()) return Reader(constants, file).read(*parsed);
  } catch (...) {
    wrong = status_from_current_exception("graph");
  }
  const std::string& text = wrong.message();  // errors of an op's rule or check() don't name the file
  if (text.find(printable(file)) != std::string::npos) return wrong;
  return Status(wrong.code(),
                concat("[graph] ", file, ": ", text.starts_with("[graph] ") ? without_area(text) : text));
}

// Covers everything in the file except the checksum itself (FORMAT.md).
static std::string checksum_of(const std::map<std::string, std::string>& metadata,
                               const std::map<std::string, Tensor>& tensors) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != kChecksumKey) text += concat(key, "=", value, "\n");
  }
  for (const auto& [name, tensor] : tensors) {
    text += concat(name, " ", dtype_name(tensor.dtype()), " ", integers(tensor.shape().dims()).dump(), " ",
                   crc32c(bytes_of(tensor)), "\n");
  }
  return concat(crc32c(std::as_bytes(std::span(text))));
}

Status write_graph(const std::string& path, const Graph& graph) {
  check_memory(graph, path);  // else the file could not be read again
  const std::vector<std::string> names = constant_names(graph);
  std::map<std::string, Tensor> kept;
  std::vector<formats::SafetensorsTensor> tensors;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!graph.values[i].is_constant()) continue;
    const Tensor& constant = graph.values[i].constant;
    const Tensor whole = constant.is_contiguous() ? constant : constant.contiguous_copy();
    const Tensor& tensor = kept.emplace(names[i], whole.to(cpu_device())).first->second;
    tensors.push_back(
        {names[i], tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}, bytes_of(tensor)});
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  for (const auto& [key, text] : graph.metadata) metadata[concat(kMetadataPrefix, key)] = text;
  metadata[std::string(kKey)] = graph_json(graph);
  metadata[std::string(kChecksumKey)] = checksum_of(metadata, kept);
  return formats::write_safetensors(path, tensors, metadata).status();
}

Result<Graph> read_graph(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::SafetensorsFile file, formats::SafetensorsFile::open(path));
  const auto text = file.metadata().find(std::string(kKey));
  if (text == file.metadata().end()) {
    return Status(ErrorCode::kUnsupported,
                  concat("[graph] ", path, " contains tensors but no graph; make one with dlpipe compile"));
  }
  std::map<std::string, Tensor> constants;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    if (!entry.dtype || entry.shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
      return Status(ErrorCode::kUnsupported,
                    concat("[graph] tensor '", entry.name, "' of ", path, " is ", entry.dtype_text, " of ",
                           entry.shape.size(), " axes, which no op supports; compile the model again"));
    }
    Tensor tensor = Tensor::empty(Shape(std::span<const int64_t>(entry.shape)), *entry.dtype);
    DLPIPE_RETURN_IF_ERROR(file.read(entry, bytes_of(tensor)));
    constants.emplace(entry.name, std::move(tensor));
  }
  // Older files have no checksum.
  const auto checksum = file.metadata().find(std::string(kChecksumKey));
  if (checksum != file.metadata().end() && checksum->second != checksum_of(file.metadata(), constants)) {
    return Status(
        ErrorCode::kCorrupt,
        concat("[graph] ", path, " was changed or corrupted after it was written; compile the model again"));
  }
  DLPIPE_ASSIGN_OR_RETURN(Graph graph, parse_graph(text->second, constants, path));
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kMetadataPrefix) && key != kKey && key != kChecksumKey)
      graph.metadata[key.substr(kMetadataPrefix.size())] = value;
  }
  return graph;
}

bool is_graph_file(const std::string& path) {
  const auto file = formats::SafetensorsFile::open(path);
  return file.ok() && file->metadata().contains(std::string(kKey));
}

}  // namespace dlpipe::engine::graph
