// Writing: one function for each message. Field numbers are those of onnx_file.cpp.
#include "base/text.h"
#include "dlpipe/onnx.h"
#include "io/formats/atomic_file.h"
#include "io/formats/protobuf.h"

namespace dlpipe::engine::onnx {

namespace {

using formats::ProtobufWriter;

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
  return formats::write_output(path, bytes);
}

}  // namespace dlpipe::engine::onnx
