// Reading: one function for each message, but those of tensors (tensor_message.cpp); fields that aren't named here are skipped.
#include "dlpipe/engine/onnx/onnx_file.h"

#include <filesystem>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/onnx/tensor_message.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/protobuf.h"

namespace dlpipe::engine::onnx {

namespace {

using formats::ProtobufField;

Result<Attribute> parse_attribute(std::string_view message, BesideModel& beside) {
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
        DLPIPE_ASSIGN_OR_RETURN(attribute.t, parse_tensor(field.bytes, beside));
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

Result<NodeEntry> parse_node(std::string_view message, BesideModel& beside) {
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
        DLPIPE_ASSIGN_OR_RETURN(Attribute attribute, parse_attribute(field.bytes, beside));
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
      info.has_shape = true;
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
  ValueInfo info{.has_shape = false};
  for (const ProtobufField& field : fields) {
    if (field.number == 1) info.name = field.bytes;
    if (field.number == 2) DLPIPE_RETURN_IF_ERROR(parse_type(field.bytes, info));
  }
  if (info.dims.size() > kMostAxes)
    return corrupt(concat("'", info.name, "' has ", info.dims.size(), " axes"));
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

Status parse_graph(std::string_view message, BesideModel& beside, Model& model) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ProtobufField> fields, formats::parse_message(message));
  for (const ProtobufField& field : fields) {
    switch (field.number) {
      case 1: {
        DLPIPE_ASSIGN_OR_RETURN(NodeEntry node, parse_node(field.bytes, beside));
        model.nodes.push_back(std::move(node));
        break;
      }
      case 2:
        model.graph_name = field.bytes;
        break;
      case 5: {
        DLPIPE_ASSIGN_OR_RETURN(TensorValue tensor, parse_tensor(field.bytes, beside));
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

static Result<Model> parse_whole(std::string_view bytes, BesideModel& beside) {
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
        DLPIPE_RETURN_IF_ERROR(parse_graph(field.bytes, beside, model));
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

// Sizes are counted first: a file with holes may be larger than memory, and so may be tensors that name the same bytes.
Result<Model> parse_model(std::string_view bytes, const std::string& folder, uint64_t most_bytes_beside) {
  BesideModel beside = {.folder = folder, .is_counting = true};
  Result<Model> model = parse_whole(bytes, beside);
  if (!model.ok() || beside.bytes == 0) return model;
  if (beside.bytes > most_bytes_beside) {
    return Status(
        ErrorCode::kUnsupported,
        concat("[onnx] the weights beside the model take ", human_bytes(beside.bytes), ", more than the ",
               human_bytes(most_bytes_beside), " that there are for them; use a machine with more memory"));
  }
  beside.is_counting = false;
  return parse_whole(bytes, beside);
}

Result<Model> read_model(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  DLPIPE_ASSIGN_OR_RETURN(const std::string bytes, formats::read_file(path, kMostBytes));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  // Once as they are read, once as tensors.
  Result<Model> model = parse_model(bytes, folder.empty() ? "." : folder, available_memory_bytes() / 2);
  if (model.ok()) return model;
  std::string_view what = model.status().message();
  if (what.starts_with('['))
    what.remove_prefix(what.find(' ') + 1);  // the area is named once, before the path
  return Status(model.status().code(), concat("[onnx] ", path, ": ", what));
}

}  // namespace dlpipe::engine::onnx
