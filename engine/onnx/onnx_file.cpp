// Reading: one function for each message; fields that aren't named here are skipped.
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
using formats::WireType;

constexpr int64_t kMostElements = int64_t{1} << 34;
constexpr size_t kMostAxes = 16;

Status corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, concat("[onnx] ", what, "; export the model again")};
}

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

// A tensor as its message has it: the elements as raw bytes, as numbers, or in a file beside the model.
struct TensorMessage {
  TensorValue tensor;
  bool is_raw = false;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  bool is_outside = false;
  Outside outside;
};

Status parse_outside(std::string_view message, Outside& outside) {
  DLPIPE_ASSIGN_OR_RETURN(const auto entry, parse_entry(message));
  int64_t number = 0;
  const bool is_number = parse_int(entry.second, &number);
  if (entry.first == "location") outside.location = entry.second;
  if (entry.first == "offset" && is_number) outside.offset = number;
  if (entry.first == "length" && is_number) outside.length = number;
  return {};
}

Status parse_tensor_field(const ProtobufField& field, TensorMessage& message) {
  TensorValue& tensor = message.tensor;
  switch (field.number) {
    case 1:
      return formats::append_varints(field, tensor.dims);
    case 2:
      tensor.type = static_cast<ElementType>(static_cast<int32_t>(field.value));
      return {};
    case 4:
      return formats::append_floats(field, message.floats);
    case 5:
    case 7:
      return formats::append_varints(field, message.ints);
    case 8:
      tensor.name = field.bytes;
      return {};
    case 9:
      tensor.bytes = field.bytes;
      message.is_raw = true;
      return {};
    case 10:
      return formats::append_doubles(field, message.doubles);
    case 13:
      return parse_outside(field.bytes, message.outside);
    case 14:
      message.is_outside = field.value == 1;
      return {};
    default:
      return {};
  }
}

Result<uint64_t> bytes_by_sizes(const TensorValue& tensor) {
  if (tensor.dims.size() > kMostAxes)
    return corrupt(concat("tensor '", tensor.name, "' has ", tensor.dims.size(), " axes"));
  int64_t elements = 1;
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
  return static_cast<uint64_t>(elements) * element;
}

Result<TensorValue> parse_tensor(std::string_view bytes, const std::string& folder) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(bytes));
  TensorMessage message;
  for (const ProtobufField& field : fields) DLPIPE_RETURN_IF_ERROR(parse_tensor_field(field, message));
  TensorValue& tensor = message.tensor;
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t expected, bytes_by_sizes(tensor));
  if (message.is_outside) {
    DLPIPE_ASSIGN_OR_RETURN(tensor.bytes, read_outside(message.outside, folder, expected, tensor.name));
  } else if (!message.is_raw) {
    tensor.bytes = bytes_of_numbers(tensor.type, message.floats, message.ints, message.doubles);
  }
  if (tensor.bytes.size() != expected)
    return corrupt(
        concat("tensor '", tensor.name, "' has ", tensor.bytes.size(), " bytes, its sizes say ", expected));
  return std::move(tensor);
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

}  // namespace dlpipe::engine::onnx
