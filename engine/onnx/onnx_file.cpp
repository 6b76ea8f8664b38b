#include "dlpipe/engine/onnx/onnx_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/protobuf.h"

namespace dlpipe::engine::onnx {

namespace {

using formats::ProtobufField;
using formats::ProtobufWriter;
using formats::WireType;

constexpr int64_t kMostElements = int64_t{1} << 34;
constexpr size_t kMostAxes = 16;

Status corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, concat("[onnx] ", what, "; export the model again")};
}

// Reading: one function for each message; fields that aren't named here are skipped.

Result<std::pair<std::string, std::string>> parse_entry(std::string_view message) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  std::pair<std::string, std::string> entry;
  for (const ProtobufField& field : fields) {
    if (field.number == 1) entry.first = field.bytes;
    if (field.number == 2) entry.second = field.bytes;
  }
  return entry;
}

template <class To, class From>
std::string packed(const std::vector<From>& values) {
  std::string bytes(values.size() * sizeof(To), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

// Numbers that stand in fields of their own instead of raw bytes.
std::string bytes_of_numbers(ElementType type, const std::vector<float>& floats,
                             const std::vector<int64_t>& ints, const std::vector<double>& doubles) {
  switch (type) {
    case ElementType::kFloat:
      return packed<float>(floats);
    case ElementType::kDouble:
      return packed<double>(doubles);
    case ElementType::kInt64:
      return packed<int64_t>(ints);
    case ElementType::kInt32:
      return packed<int32_t>(ints);
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return packed<uint16_t>(ints);
    case ElementType::kUint8:
    case ElementType::kBool:
      return packed<uint8_t>(ints);
    case ElementType::kInt8:
      return packed<int8_t>(ints);
    default:
      return {};
  }
}

// A part of a file beside the model.
struct Outside {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
};

Result<std::string> read_outside(const Outside& part, const std::string& folder, uint64_t expected,
                                 const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path location = part.location;
  bool is_inside = !part.location.empty() && location.is_relative();
  for (const fs::path& piece : location) is_inside = is_inside && piece != "..";
  if (folder.empty() || !is_inside)
    return Status(ErrorCode::kUnsupported,
                  concat("[onnx] tensor '", name, "' lies in '", part.location,
                         "', which is no file beside the model; export it as one file"));
  const fs::path path = fs::path(folder) / location;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return Status(ErrorCode::kNotFound, concat("[onnx] tensor '", name, "' lies in ", path.string(),
                                               ", which can't be read; move it beside the model"));
  const auto size = static_cast<uint64_t>(file.tellg());
  if (part.offset < 0 || static_cast<uint64_t>(part.offset) > size ||
      size - static_cast<uint64_t>(part.offset) < expected ||
      (part.length >= 0 && static_cast<uint64_t>(part.length) != expected))
    return corrupt(concat("tensor '", name, "' goes past the end of ", path.string()));
  std::string bytes(expected, '\0');
  file.seekg(part.offset);
  file.read(bytes.data(), static_cast<std::streamsize>(expected));
  if (!file) return corrupt(concat(path.string(), " can't be read"));
  return bytes;
}

Result<TensorValue> parse_tensor(std::string_view message, const std::string& folder) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  TensorValue tensor;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  Outside outside;
  bool is_outside = false, is_raw = false;
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1:
        DLPIPE_RETURN_IF_ERROR(formats::append_varints(field, tensor.dims));
        break;
      case 2:
        tensor.type = static_cast<ElementType>(static_cast<int32_t>(field.value));
        break;
      case 4:
        DLPIPE_RETURN_IF_ERROR(formats::append_floats(field, floats));
        break;
      case 5:
      case 7:
        DLPIPE_RETURN_IF_ERROR(formats::append_varints(field, ints));
        break;
      case 8:
        tensor.name = field.bytes;
        break;
      case 9:
        tensor.bytes = field.bytes, is_raw = true;
        break;
      case 10:
        DLPIPE_RETURN_IF_ERROR(formats::append_doubles(field, doubles));
        break;
      case 13: {
        DLPIPE_ASSIGN_OR_RETURN(const auto entry, parse_entry(field.bytes));
        int64_t number = 0;
        const bool is_number = parse_int(entry.second, &number);
        if (entry.first == "location") outside.location = entry.second;
        if (entry.first == "offset" && is_number) outside.offset = number;
        if (entry.first == "length" && is_number) outside.length = number;
        break;
      }
      case 14:
        is_outside = field.value == 1;
        break;
      default:
        break;
    }
  }
  int64_t elements = 1;
  if (tensor.dims.size() > kMostAxes)
    return corrupt(concat("tensor '", tensor.name, "' has ", tensor.dims.size(), " axes"));
  for (const int64_t size : tensor.dims) {
    if (size < 0 || (size > 0 && elements > kMostElements / size))
      return corrupt(concat("tensor '", tensor.name, "' has impossible sizes"));
    elements *= size;
  }
  const size_t element = element_size(tensor.type);
  if (element == 0) {
    return Status(ErrorCode::kUnsupported,
                  concat("[onnx] tensor '", tensor.name, "' has elements of type ",
                         static_cast<int>(tensor.type), ", which dlpipe lacks; export it as float"));
  }
  const uint64_t expected = static_cast<uint64_t>(elements) * element;
  if (is_outside) {
    DLPIPE_ASSIGN_OR_RETURN(tensor.bytes, read_outside(outside, folder, expected, tensor.name));
  } else if (!is_raw) {
    tensor.bytes = bytes_of_numbers(tensor.type, floats, ints, doubles);
  }
  if (tensor.bytes.size() != expected)
    return corrupt(
        concat("tensor '", tensor.name, "' has ", tensor.bytes.size(), " bytes, its sizes say ", expected));
  return tensor;
}

Result<Attribute> parse_attribute(std::string_view message, const std::string& folder) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  Attribute attribute;
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1:
        attribute.name = field.bytes;
        break;
      case 2:
        attribute.f = field.as_float();
        break;
      case 3:
        attribute.i = field.as_int();
        break;
      case 4:
        attribute.s = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(attribute.t, parse_tensor(field.bytes, folder));
        break;
      }
      case 7:
        DLPIPE_RETURN_IF_ERROR(formats::append_floats(field, attribute.floats));
        break;
      case 8:
        DLPIPE_RETURN_IF_ERROR(formats::append_varints(field, attribute.ints));
        break;
      case 20:
        attribute.type = static_cast<int32_t>(field.value);
        break;
      default:
        break;
    }
  }
  return attribute;
}

Result<NodeEntry> parse_node(std::string_view message, const std::string& folder) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  NodeEntry node;
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1:
        node.inputs.emplace_back(field.bytes);
        break;
      case 2:
        node.outputs.emplace_back(field.bytes);
        break;
      case 3:
        node.name = field.bytes;
        break;
      case 4:
        node.op = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(Attribute attribute, parse_attribute(field.bytes, folder));
        node.attributes.push_back(std::move(attribute));
        break;
      }
      case 7:
        node.domain = field.bytes;
        break;
      default:
        break;
    }
  }
  return node;
}

Result<ValueInfo::Dim> parse_dim(std::string_view message) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  ValueInfo::Dim dim;
  for (const ProtobufField& field : fields) {
    if (field.number == 1) dim.size = field.as_int();
    if (field.number == 2) dim.symbol = field.bytes;
  }
  return dim;
}

// ValueInfoProto.type (TypeProto) . tensor_type . {elem_type, shape . dim}
Status parse_type(std::string_view message, ValueInfo& info) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> type, formats::parse_message(message));
  for (const ProtobufField& one : type) {
    if (one.number != 1) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> tensor, formats::parse_message(one.bytes));
    for (const ProtobufField& field : tensor) {
      if (field.number == 1) info.type = static_cast<ElementType>(static_cast<int32_t>(field.value));
      if (field.number != 2) continue;
      DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> dims, formats::parse_message(field.bytes));
      for (const ProtobufField& dim : dims) {
        if (dim.number != 1) continue;
        DLPIPE_ASSIGN_OR_RETURN(ValueInfo::Dim parsed, parse_dim(dim.bytes));
        info.dims.push_back(std::move(parsed));
      }
    }
  }
  return {};
}

Result<ValueInfo> parse_value(std::string_view message) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  ValueInfo info;
  for (const ProtobufField& field : fields) {
    if (field.number == 1) info.name = field.bytes;
    if (field.number == 2) DLPIPE_RETURN_IF_ERROR(parse_type(field.bytes, info));
  }
  if (info.dims.size() > kMostAxes)
    return corrupt(concat("'", info.name, "' has ", info.dims.size(), " axes"));
  return info;
}

Status parse_graph(std::string_view message, const std::string& folder, Model& model) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1: {
        DLPIPE_ASSIGN_OR_RETURN(NodeEntry node, parse_node(field.bytes, folder));
        model.nodes.push_back(std::move(node));
        break;
      }
      case 2:
        model.graph_name = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(TensorValue tensor, parse_tensor(field.bytes, folder));
        model.initializers.push_back(std::move(tensor));
        break;
      }
      case 11:
      case 12: {
        DLPIPE_ASSIGN_OR_RETURN(ValueInfo info, parse_value(field.bytes));
        (field.number == 11 ? model.inputs : model.outputs).push_back(std::move(info));
        break;
      }
      case 15:
        return {ErrorCode::kUnsupported, "[onnx] the model has sparse tensors; export dense ones"};
      default:
        break;
    }
  }
  return {};
}

Status parse_opset(std::string_view message, Model& model) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  std::string domain;
  int64_t version = 0;
  for (const ProtobufField& field : fields) {
    if (field.number == 1) domain = field.bytes;
    if (field.number == 2) version = field.as_int();
  }
  model.opsets[domain == "ai.onnx" ? "" : domain] = version;
  return {};
}

// Writing.

ProtobufWriter message_of(const TensorValue& tensor) {
  ProtobufWriter message;
  message.add_ints(1, tensor.dims);
  message.add_int(2, static_cast<int64_t>(tensor.type));
  message.add_bytes(8, tensor.name);
  message.add_bytes(9, tensor.bytes);
  return message;
}

ProtobufWriter message_of(const Attribute& attribute) {
  ProtobufWriter message;
  message.add_bytes(1, attribute.name);
  if (attribute.type == Attribute::kFloat) message.add_float(2, attribute.f);
  if (attribute.type == Attribute::kInt) message.add_int(3, attribute.i);
  if (attribute.type == Attribute::kString) message.add_bytes(4, attribute.s);
  if (attribute.type == Attribute::kTensor) message.add_message(5, message_of(attribute.t));
  if (attribute.type == Attribute::kFloats) message.add_floats(7, attribute.floats);
  if (attribute.type == Attribute::kInts) {
    for (const int64_t value : attribute.ints)
      message.add_int(8, value);  // not packed: the file's syntax is proto2
  }
  message.add_int(20, attribute.type);
  return message;
}

ProtobufWriter message_of(const NodeEntry& node) {
  ProtobufWriter message;
  for (const std::string& input : node.inputs) message.add_bytes(1, input);
  for (const std::string& output : node.outputs) message.add_bytes(2, output);
  message.add_bytes(3, node.name);
  message.add_bytes(4, node.op);
  for (const Attribute& attribute : node.attributes) message.add_message(5, message_of(attribute));
  if (!node.domain.empty()) message.add_bytes(7, node.domain);
  return message;
}

ProtobufWriter message_of(const ValueInfo& info) {
  ProtobufWriter shape;
  for (const ValueInfo::Dim& dim : info.dims) {
    ProtobufWriter one;
    if (dim.size >= 0) {
      one.add_int(1, dim.size);
    } else {
      one.add_bytes(2, dim.symbol);
    }
    shape.add_message(1, one);
  }
  ProtobufWriter tensor;
  tensor.add_int(1, static_cast<int64_t>(info.type));
  tensor.add_message(2, shape);
  ProtobufWriter type;
  type.add_message(1, tensor);
  ProtobufWriter message;
  message.add_bytes(1, info.name);
  message.add_message(2, type);
  return message;
}

}  // namespace

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat:
    case ElementType::kInt32:
      return 4;
    case ElementType::kDouble:
    case ElementType::kInt64:
      return 8;
    default:
      return 0;
  }
}

int64_t TensorValue::elements() const {
  int64_t product = 1;
  for (const int64_t size : dims) product *= size;
  return product;
}

Result<Model> parse_model(std::string_view bytes, const std::string& folder) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(bytes));
  Model model;
  model.ir_version = 0;
  bool has_graph = false;
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1:
        model.ir_version = field.as_int();
        break;
      case 2:
        model.producer = field.bytes;
        break;
      case 3:
        model.producer_version = field.bytes;
        break;
      case 7: {
        DLPIPE_RETURN_IF_ERROR(parse_graph(field.bytes, folder, model));
        has_graph = true;
        break;
      }
      case 8:
        DLPIPE_RETURN_IF_ERROR(parse_opset(field.bytes, model));
        break;
      case 14: {
        DLPIPE_ASSIGN_OR_RETURN(auto entry, parse_entry(field.bytes));
        model.metadata.insert(std::move(entry));
        break;
      }
      default:
        break;
    }
  }
  if (!has_graph || model.ir_version < 1) return corrupt("there is no ONNX model in it");
  return model;
}

Result<Model> read_model(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  DLPIPE_ASSIGN_OR_RETURN(const std::string bytes, formats::read_file(path, kMostBytes));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  Result<Model> model = parse_model(bytes, folder.empty() ? "." : folder);
  if (model.ok()) return model;
  return Status(model.status().code(), concat("[onnx] ", path, ": ", model.status().message()));
}

std::string serialize(const Model& model) {
  ProtobufWriter graph;
  for (const NodeEntry& node : model.nodes) graph.add_message(1, message_of(node));
  graph.add_bytes(2, model.graph_name);
  for (const TensorValue& tensor : model.initializers) graph.add_message(5, message_of(tensor));
  for (const ValueInfo& input : model.inputs) graph.add_message(11, message_of(input));
  for (const ValueInfo& output : model.outputs) graph.add_message(12, message_of(output));
  ProtobufWriter message;
  message.add_int(1, model.ir_version);
  message.add_bytes(2, model.producer);
  message.add_bytes(3, model.producer_version);
  message.add_message(7, graph);
  for (const auto& [domain, version] : model.opsets) {
    ProtobufWriter opset;
    opset.add_bytes(1, domain);
    opset.add_int(2, version);
    message.add_message(8, opset);
  }
  for (const auto& [key, value] : model.metadata) {
    ProtobufWriter entry;
    entry.add_bytes(1, key);
    entry.add_bytes(2, value);
    message.add_message(14, entry);
  }
  return message.bytes();
}

Status write_model(const std::string& path, const Model& model) {
  constexpr size_t kMostBytes = (size_t{1} << 31) - 1;
  const std::string bytes = serialize(model);
  if (bytes.size() > kMostBytes)
    return {ErrorCode::kUnsupported, concat("[onnx] the model has ", human_bytes(bytes.size()),
                                            "; one ONNX file holds at most 2 GiB")};
  return formats::write_file(path, bytes);
}

}  // namespace dlpipe::engine::onnx
