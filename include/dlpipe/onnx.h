// ONNX models, opset 17: files as plain structs, and conversion to and from graphs (dlpipe/graph.h).
//
// The structs are the parts of ModelProto that models of tensors need (github.com/onnx/onnx, onnx/onnx.proto). Importing calls
// dlpipe's ops node by node and captures the calls; shapes, sizes and integers computed from them are evaluated during the
// import.
//
// Ownership: values. Threads: different models may be used from different threads; import runs ops on the engine's threads.
// Cost: reading keeps a second copy of the file's tensors in memory. Corrupt files are safe to read: sizes are checked before
// allocation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/graph.h"

namespace dlpipe::engine::onnx {

// ---- files

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
/// 0 for types that dlpipe does not support.
size_t element_size(ElementType type);
/// NumPy's name of the type; "type 99" if ONNX has no such type.
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
  std::vector<std::string> inputs = {};  // "" if an optional one is absent
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
  std::map<std::string, int64_t> opsets = {};  // by domain; "" is the ONNX domain
  std::map<std::string, std::string> metadata = {};
  std::string graph_name = {};
  std::vector<NodeEntry> nodes = {};
  std::vector<TensorValue> initializers = {};
  std::vector<ValueInfo> inputs = {};  // in older files including the initializers
  std::vector<ValueInfo> outputs = {};
};

/// `folder`: contains the files of external tensors; "" refuses such tensors. `linked_folder`: a second folder that links may
/// lead to; "": none. If external tensors have more than `most_bytes_beside` bytes in total, returns kUnsupported before
/// allocating memory.
Result<Model> parse_model(std::string_view bytes, const std::string& folder,
                          uint64_t most_bytes_beside = uint64_t{1} << 36,
                          const std::string& linked_folder = "");
Result<Model> read_model(const std::string& path);
std::string serialize(const Model& model);
/// Writes a temporary file and renames it. kUnsupported for more than 2 GiB, the limit of a protocol buffer.
Status write_model(const std::string& path, const Model& model);

// ---- a model as a graph

inline constexpr int64_t kAnyBatch = -1;

struct ImportOptions {
  /// The sizes of an input's axes, by input name, for dimensions that the file leaves open. The first one may be kAnyBatch,
  /// even if the file has a size for it.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  /// Keeps batch norms and dropout that are in training mode: the graph is then in training form
  /// (dlpipe/graph.h). Otherwise they are refused.
  bool training = false;
  /// Makes the BatchNormalization nodes of a model in inference form use the batch's statistics (momentum
  /// 0.1); kUnsupported if there are none. Implies `training`.
  bool live_batch_norm = false;
  /// The state_dict of a captured model: maps each initializer to true if it is a parameter that is trained, or to false if
  /// it is a buffer, which is kept even if no node reads it. Other constants get names that begin with graph::kLiteralPrefix.
  std::map<std::string, bool> state = {};
};

/// Inputs and outputs keep the model's names (with the exceptions of name_outputs()), shapes and order of axes ([N,C,H,W]). A
/// first dimension without a size is the batch; other dimensions need a size, in the file or in `options`. Floating weights
/// become f32. Throws kUnsupported that names the node and the op if dlpipe lacks it or supports it differently, and kCorrupt
/// that says what is wrong with the model.
graph::Graph import_model(const Model& model, const ImportOptions& options = {});

/// The model's inputs without those set by initializers: the inputs of import_model's graph, in order.
std::vector<ValueInfo> open_inputs(const Model& model);

/// The ONNX ops that import_model supports, sorted.
std::vector<std::string> imported_ops();

// ---- a graph as a model

/// Inputs and outputs have the graph's names, shapes and order of axes (images [N,H,W,C]); the batch is the dimension
/// 'N'. Weights keep their names; the graph's metadata become the model's. Throws kUnsupported for an op without a
/// counterpart in ONNX: losses, dropout, a batch norm in training mode.
Model export_graph(const graph::Graph& graph);

}  // namespace dlpipe::engine::onnx
