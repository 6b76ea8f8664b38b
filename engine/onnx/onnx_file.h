// ONNX files as plain structs: ModelProto and what is in it, as far as models of tensors need
// (github.com/onnx/onnx, onnx/onnx.proto; field numbers stand in onnx_file.cpp).
//
// Reading takes any bytes: sizes are checked before memory is asked for; errors are values that say what. Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::engine::onnx {

/// TensorProto.DataType.
enum class ElementType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kBFloat16 = 16,
};
/// 0 for types that dlpipe has no use for.
size_t element_size(ElementType type);
/// As NumPy calls it; "type 99" where ONNX has no such type.
std::string element_type_name(ElementType type);

struct TensorValue {
  std::string name = {};
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> dims = {};
  std::string bytes = {};  // row-major, little endian
  int64_t elements() const;
};

struct Attribute {
  enum Type : int32_t {
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8
  };
  std::string name = {};
  int32_t type = 0;
  float f = 0;
  int64_t i = 0;
  std::string s = {};
  TensorValue t = {};
  std::vector<float> floats = {};
  std::vector<int64_t> ints = {};
};

struct NodeEntry {
  std::string op = {};  // op_type
  std::string domain = {};
  std::string name = {};
  std::vector<std::string> inputs = {};  // "" where an optional one is absent
  std::vector<std::string> outputs = {};
  std::vector<Attribute> attributes = {};
};

struct ValueInfo {
  std::string name = {};
  ElementType type = ElementType::kUndefined;
  struct Dim {
    int64_t size = -1;  // -1: `symbol`
    std::string symbol = {};
  };
  std::vector<Dim> dims = {};
  bool has_shape = true;
};
/// "[N,3,224,224]"; "[?]" without a shape.
std::string shape_text(const ValueInfo& info);

struct Model {
  int64_t ir_version = 8;
  std::string producer = {};
  std::string producer_version = {};
  std::map<std::string, int64_t> opsets = {};  // by domain; "" is ONNX's own
  std::map<std::string, std::string> metadata = {};
  std::string graph_name = {};
  std::vector<NodeEntry> nodes = {};
  std::vector<TensorValue> initializers = {};
  std::vector<ValueInfo> inputs = {};  // in older files the initializers, too
  std::vector<ValueInfo> outputs = {};
};

/// `folder`: where the files of tensors that lie outside are looked for; "" refuses those. Together these tensors have at
/// most `most_bytes_beside`, else kUnsupported before memory is asked for.
Result<Model> parse_model(std::string_view bytes, const std::string& folder,
                          uint64_t most_bytes_beside = uint64_t{1} << 36,
                          const std::string& linked_folder = "");
Result<Model> read_model(const std::string& path);
std::string serialize(const Model& model);
/// Writes aside and renames. kUnsupported past the 2 GiB that a protocol buffer may have.
Status write_model(const std::string& path, const Model& model);

}  // namespace dlpipe::engine::onnx
