// Reading: one function for each message, except for tensors (tensor_message.cpp); unknown fields are skipped.
#include "dlpipe/onnx.h"

#include <filesystem>

#include "base/file.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "engine/onnx/tensor_message.h"
#include "io/formats/atomic_file.h"
#include "io/formats/protobuf.h"

namespace dlpipe::engine::onnx {

namespace {

using formats::ProtobufField;
using formats::ProtobufReader;

// The state while reading a file. A part uses many times its size in the file: an empty node has two bytes there and uses 168.
// For large language models the parts use some megabytes.
struct Reading {
  BesideModel beside;
  uint64_t bytes_of_parts = 0;

  Status count(uint64_t bytes) {
    constexpr uint64_t kMostBytes = uint64_t{1} << 28;
    bytes_of_parts += bytes;
    if (bytes_of_parts <= kMostBytes) return {};
    return corrupt(
        concat("its nodes, attributes and names, without weights, need more than ", human_bytes(kMostBytes)));
  }
  template <class Part>
  Status add(Part part, std::vector<Part>& to) {
    DLPIPE_RETURN_IF_ERROR(count(sizeof(Part)));
    to.push_back(std::move(part));
    return {};
  }
};

Result<Attribute> parse_attribute(std::string_view message, Reading& reading) {
  Attribute attribute;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
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
        DLPIPE_ASSIGN_OR_RETURN(attribute.t, parse_tensor(field.bytes, reading.beside));
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

Result<NodeEntry> parse_node(std::string_view message, Reading& reading) {
  NodeEntry node;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    switch (field.number) {
      case 1:
        DLPIPE_RETURN_IF_ERROR(reading.add(std::string(field.bytes), node.inputs));
        break;
      case 2:
        DLPIPE_RETURN_IF_ERROR(reading.add(std::string(field.bytes), node.outputs));
        break;
      case 3:
        node.name = field.bytes;
        break;
      case 4:
        node.op = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(Attribute attribute, parse_attribute(field.bytes, reading));
        DLPIPE_RETURN_IF_ERROR(reading.add(std::move(attribute), node.attributes));
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
  ValueInfo::Dim dim;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) dim.size = field.as_int();
    if (field.number == 2) dim.symbol = field.bytes;
  }
  return dim;
}

// TensorShapeProto
Status parse_shape(std::string_view message, Reading& reading, ValueInfo& info) {
  info.has_shape = true;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number != 1) continue;
    if (info.dims.size() == kMostAxes)
      return corrupt(concat(in_quotes(info.name), " has more than ", kMostAxes, " axes"));
    DLPIPE_ASSIGN_OR_RETURN(ValueInfo::Dim dim, parse_dim(field.bytes));
    DLPIPE_RETURN_IF_ERROR(reading.add(std::move(dim), info.dims));
  }
  return {};
}

// TypeProto.Tensor
Status parse_tensor_type(std::string_view message, Reading& reading, ValueInfo& info) {
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) info.type = static_cast<ElementType>(static_cast<int32_t>(field.value));
    if (field.number == 2) DLPIPE_RETURN_IF_ERROR(parse_shape(field.bytes, reading, info));
  }
  return {};
}

// TypeProto
Status parse_type(std::string_view message, Reading& reading, ValueInfo& info) {
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) DLPIPE_RETURN_IF_ERROR(parse_tensor_type(field.bytes, reading, info));
  }
  return {};
}

Result<ValueInfo> parse_value(std::string_view message, Reading& reading) {
  ValueInfo info{.has_shape = false};
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) info.name = field.bytes;
    if (field.number == 2) DLPIPE_RETURN_IF_ERROR(parse_type(field.bytes, reading, info));
  }
  return info;
}

}  // namespace

std::string shape_text(const ValueInfo& info) {
  if (!info.has_shape) return "[?]";
  std::string text;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const ValueInfo::Dim& dim = info.dims[axis];
    const std::string open = dim.symbol.empty() ? "?" : dim.symbol;
    text += concat(axis == 0 ? "" : ",", dim.size < 0 ? open : std::to_string(dim.size));
  }
  return concat("[", text, "]");
}

namespace {

Status parse_graph(std::string_view message, Reading& reading, Model& model) {
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    switch (field.number) {
      case 1: {
        DLPIPE_ASSIGN_OR_RETURN(NodeEntry node, parse_node(field.bytes, reading));
        DLPIPE_RETURN_IF_ERROR(reading.add(std::move(node), model.nodes));
        break;
      }
      case 2:
        model.graph_name = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(TensorValue tensor, parse_tensor(field.bytes, reading.beside));
        DLPIPE_RETURN_IF_ERROR(reading.add(std::move(tensor), model.initializers));
        break;
      }
      case 11:
      case 12: {
        DLPIPE_ASSIGN_OR_RETURN(ValueInfo info, parse_value(field.bytes, reading));
        DLPIPE_RETURN_IF_ERROR(
            reading.add(std::move(info), field.number == 11 ? model.inputs : model.outputs));
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

Status parse_opset(std::string_view message, Reading& reading, Model& model) {
  std::string domain;
  int64_t version = 0;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) domain = field.bytes;
    if (field.number == 2) version = field.as_int();
  }
  DLPIPE_RETURN_IF_ERROR(reading.count(sizeof domain));
  model.opsets[domain == "ai.onnx" ? "" : domain] = version;
  return {};
}

}  // namespace

static Result<Model> parse_whole(std::string_view bytes, Reading& reading) {
  Model model;
  model.ir_version = 0;
  bool has_graph = false;
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
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
        DLPIPE_RETURN_IF_ERROR(parse_graph(field.bytes, reading, model));
        has_graph = true;
        break;
      }
      case 8:
        DLPIPE_RETURN_IF_ERROR(parse_opset(field.bytes, reading, model));
        break;
      case 14: {
        DLPIPE_ASSIGN_OR_RETURN(auto entry, parse_entry(field.bytes));
        DLPIPE_RETURN_IF_ERROR(reading.count(sizeof entry));
        model.metadata.insert(std::move(entry));
        break;
      }
      default:
        break;
    }
  }
  if (!has_graph || model.ir_version < 1) return corrupt("it contains no ONNX model");
  return model;
}

// Counts the sizes before it reads: a sparse file, or tensors that refer to the same bytes, may be larger than memory.
Result<Model> parse_model(std::string_view bytes, const std::string& folder, uint64_t most_bytes_beside,
                          const std::string& linked_folder) {
  Reading counting = {.beside = {.folder = folder, .linked_folder = linked_folder, .is_counting = true}};
  Result<Model> model = parse_whole(bytes, counting);
  const BesideModel& beside = counting.beside;
  if (!model.ok() || beside.bytes == 0) return model;
  if (beside.bytes > most_bytes_beside) {
    return Status(
        ErrorCode::kUnsupported,
        concat("[onnx] the model's external weights need ", human_bytes(beside.bytes), ", more than the ",
               human_bytes(most_bytes_beside), " available for them; use a machine with more memory"));
  }
  *model = {};  // frees its memory for the next one
  Reading reading = {.beside = {.folder = folder, .linked_folder = linked_folder}};
  return parse_whole(bytes, reading);
}

Result<Model> read_model(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  DLPIPE_ASSIGN_OR_RETURN(const std::string bytes, formats::read_file(path, kMostBytes));
  std::error_code ignored;
  const std::string linked_to = std::filesystem::canonical(path, ignored).string();
  // Half the memory, because weights are held twice: as read, and as tensors.
  Result<Model> model =
      parse_model(bytes, folder_of(path), available_memory_bytes() / 2, folder_of(linked_to));
  if (model.ok()) return model;
  return model.status().with_context(concat("[onnx] ", path, ": "));
}

}  // namespace dlpipe::engine::onnx
