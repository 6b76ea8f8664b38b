#include "dlpipe/onnx.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/messages.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "engine/graph/capture.h"
#include "engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

std::array<std::span<const ImportedOp>, 9> all_ops() {
  return {arithmetic_ops(), copy_ops(),   einsum_ops(), image_ops(), math_ops(),
          norm_ops(),       resize_ops(), shape_ops(),  size_ops()};
}

}  // namespace

const ImportedOp* find_op(const NodeEntry& node) {
  const std::string& name = node.op;
  const auto found_in = [&](std::span<const ImportedOp> ops) {
    const auto found =
        std::find_if(ops.begin(), ops.end(), [&](const ImportedOp& op) { return op.name == name; });
    return found != ops.end() ? &*found : nullptr;
  };
  if (node.domain == "dlpipe") return found_in(training_ops());
  if (!node.domain.empty() && node.domain != "ai.onnx") return nullptr;
  for (const std::span<const ImportedOp> ops : all_ops()) {
    if (const ImportedOp* const found = found_in(ops)) return found;
  }
  return nullptr;
}

int64_t opset_of(const Model& model) {
  const auto opset = model.opsets.find("");
  return opset == model.opsets.end() ? 1 : opset->second;
}

namespace {

DType input_dtype(const ValueInfo& info) {
  if (info.type == ElementType::kInt64 || info.type == ElementType::kInt32) return DType::kI64;
  if (info.type == ElementType::kFloat || info.type == ElementType::kFloat16 ||
      info.type == ElementType::kDouble || info.type == ElementType::kBFloat16)
    return DType::kF32;
  throw Error(
      Status(ErrorCode::kUnsupported,
             dlpipe::concat("[onnx] input ", in_quotes(info.name), " has elements of type ",
                            element_type_name(info.type), "; dlpipe supports floats, int64 and int32")));
}

// Before opset 7, attributes defined how ops broadcast. After kNewest, ops may have a different meaning.
Status check_opset(const Model& model) {
  constexpr int64_t kOldest = 7, kNewest = 28;
  const int64_t opset = opset_of(model);
  if (opset >= kOldest && opset <= kNewest) return Status();
  return Status(
      ErrorCode::kUnsupported,
      dlpipe::concat("[onnx] the model has opset ", opset, "; dlpipe supports ", kOldest, " to ", kNewest,
                     "; export it with one of them, or convert it (onnx.version_converter)"));
}

// An example for --input-shape.
std::string shape_example(const ValueInfo& info) {
  std::string text;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const int64_t size = info.dims[axis].size, usual = info.dims.size() == 4 ? 224 : 128;
    text += axis == 0 && size < 0 ? "N" : dlpipe::concat(axis == 0 ? "" : ",", size < 0 ? usual : size);
  }
  return dlpipe::concat(short_name(info.name), "=", info.dims.empty() ? "N,3,224,224" : text);
}

void set_shapes(std::vector<ValueInfo>& inputs, const ImportOptions& options) {
  for (const auto& shape : options.shapes) {
    const std::string& name = shape.first;
    const std::vector<int64_t>& sizes = shape.second;
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const ValueInfo& info) { return info.name == name; });
    if (input == inputs.end()) {
      std::string names;
      for (const ValueInfo& info : inputs)
        names += dlpipe::concat(names.empty() ? "" : ", ", short_name(info.name));
      dlpipe::refuse("onnx", "there is no input ", in_quotes(name), " to give a shape; the model has ",
                     names);
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
      dlpipe::refuse("onnx", "input ", in_quotes(name), " has the shape ", shape_text(*input),
                     ", which the given sizes don't match; give a size for each axis and keep fixed sizes "
                     "unchanged (the first may be N)");
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
          dlpipe::concat("[onnx] input ", in_quotes(info.name),
                         " has no shape; give it: dlpipe compile MODEL.onnx -o MODEL.dlg --input-shape ",
                         shape_example(info))));
    if (info.dims.size() > static_cast<size_t>(Shape::kMaxRank))
      throw Error(Status(ErrorCode::kUnsupported,
                         dlpipe::concat("[onnx] input ", in_quotes(info.name), " has ", info.dims.size(),
                                        " axes; dlpipe supports ", Shape::kMaxRank)));
    int64_t elements = 1;
    for (size_t axis = 0; axis < info.dims.size(); ++axis) {
      const bool is_batch = axis == 0 && info.dims[0].size < 0;
      const int64_t size = is_batch ? 1 : info.dims[axis].size;
      if (size < 0) {
        throw Error(Status(
            ErrorCode::kUnsupported,
            dlpipe::concat(
                "[onnx] axis ", axis, " of input ", in_quotes(info.name), " has no size (",
                in_quotes(info.dims[axis].symbol),
                "); only the first may vary: give the others, as in `dlpipe compile MODEL.onnx -o MODEL.dlg "
                "--input-shape ",
                shape_example(info), "`, or export the model with them fixed")));
      }
      if (size > 0 && elements > kMostElements / size)
        throw Error(
            Status(ErrorCode::kCorrupt, dlpipe::concat("[onnx] input ", in_quotes(info.name),
                                                       " has impossible sizes; export the model again")));
      elements *= std::max<int64_t>(size, 1);
      input.sample.shape.push_back(size);
      if (is_batch) input.batch_axes = bit(0);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Checks that each name is computed once, and before a node reads it. If a file breaks this rule of ONNX, results would depend on
// the order of nodes.
void check_names(const Model& model) {
  std::map<std::string, std::string> makers;
  const auto make = [&](const std::string& name, const std::string& maker) {
    const auto [at, is_new] = makers.emplace(name, maker);
    if (is_new) return;
    throw Error(
        Status(ErrorCode::kCorrupt,
               dlpipe::concat("[onnx] ", in_quotes(name), " is computed twice, by ", at->second, " and by ",
                              maker, "; give each value its own name, or export the model again")));
  };
  for (const TensorValue& tensor : model.initializers) make(tensor.name, "an initializer");
  const auto initializers = makers;  // an initializer may be the default value of an input
  for (const ValueInfo& info : model.inputs) {
    if (!initializers.contains(info.name)) make(info.name, "the model's input");
  }
  for (const NodeEntry& node : model.nodes) {
    for (const std::string& name : node.inputs) {
      if (name.empty() || makers.contains(name)) continue;
      throw Error(Status(ErrorCode::kCorrupt,
                         dlpipe::concat("[onnx] ", node_text(node), " reads ", in_quotes(name),
                                        ", which no node before it computes; export the model again")));
    }
    for (const std::string& name : node.outputs) {
      if (!name.empty()) make(name, node_text(node));
    }
  }
}

const std::string& name_of(const NodeEntry& node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
}

// Reports all missing ops at once, so that the user can fix the export in one go.
void check_ops(const Model& model) {
  std::map<std::string, std::pair<int, const NodeEntry*>> missing;
  for (const NodeEntry& node : model.nodes) {
    if (find_op(node) != nullptr) continue;
    auto& [count, first] = missing[node.domain.empty() ? node.op : dlpipe::concat(node.domain, ".", node.op)];
    if (count++ == 0) first = &node;
  }
  if (missing.empty()) return;
  std::string ops;
  constexpr size_t kMost = 50;
  size_t count = 0;
  for (const auto& [name, where] : missing) {
    if (++count > kMost) break;
    ops += dlpipe::concat(ops.empty() ? "" : ", ", short_name(name), " (",
                          where.first == 1 ? "" : dlpipe::concat(where.first, " nodes, the first is "),
                          in_quotes(name_of(*where.second)), ")");
  }
  if (missing.size() > kMost) ops += dlpipe::concat(" and ", missing.size() - kMost, " more");
  throw Error(Status(ErrorCode::kUnsupported,
                     dlpipe::concat("[onnx] dlpipe has no such op", missing.size() == 1 ? ": " : "s: ", ops,
                                    "; dlpipe compile --list-onnx-ops lists the supported ones")));
}

// Sets Value::trained of the constants from options.state, and renames constants that aren't in it. Adds the tensors of the state
// that no node reads, so that the state is complete.
void mark_state(graph::Graph& graph, const Constants& constants, const std::map<std::string, bool>& state) {
  std::map<std::string, graph::ValueId> read;
  int literals = 0;
  for (graph::ValueId id = 0; id < static_cast<graph::ValueId>(graph.values.size()); ++id) {
    graph::Value& value = graph.value(id);
    if (!value.is_constant()) continue;
    const auto own = state.find(value.name);
    value.trained = own != state.end() && own->second;
    if (own != state.end())
      read.emplace(value.name, id);
    else
      value.name = dlpipe::concat(graph::kLiteralPrefix, literals++);
  }
  for (const auto& [name, trained] : state) {
    if (read.contains(name)) continue;
    const auto given = constants.values().find(name);
    if (given == constants.values().end()) refuse("onnx", "the model has no initializer ", in_quotes(name));
    const RunValue& value = given->second;
    graph.value(graph.add_constant(name, value.ints ? tensor_of(*value.ints) : value.tensor)).trained = false;
  }
}

void check_live(const Model& model) {
  const auto is_norm = [](const NodeEntry& node) { return node.op == "BatchNormalization"; };
  if (std::none_of(model.nodes.begin(), model.nodes.end(), is_norm))
    throw Error(
        Status(ErrorCode::kUnsupported,
               "[onnx] the model has no BatchNormalization that could be made live: the exporter folded "
               "them into convolutions, or there were none; leave --live-batch-norm out, or export with "
               "training=torch.onnx.TrainingMode.PRESERVE and do_constant_folding=False"));
}

}  // namespace

std::string node_text(const NodeEntry& node) {
  return dlpipe::concat("node ", in_quotes(name_of(node)), " (", short_name(node.op), ")");
}

graph::Graph import_model(const Model& model, const ImportOptions& options) {
  throw_if_error(check_opset(model));
  check_names(model);
  check_ops(model);
  if (options.live_batch_norm) check_live(model);
  Constants constants(model);
  const std::vector<graph::CaptureInput> inputs = inputs_of(model, options);
  if (model.outputs.empty())
    throw Error(Status(ErrorCode::kCorrupt, "[onnx] the model has no output; export it again"));
  std::vector<std::pair<std::string, Tensor>> weights = constants.named_tensors();
  uint64_t weight_bytes = 0;
  for (const auto& [name, weight] : weights) weight_bytes += weight.size_bytes();
  // A small file must not use all memory: values computed from weights only are computed during the import.
  constexpr uint64_t kPlainBytes = uint64_t{256} << 20, kTimes = 16;
  const graph::CaptureLimits limits = {.constant_bytes = kPlainBytes + kTimes * weight_bytes,
                                       .value_bytes = graph::most_peak_bytes(weight_bytes)};
  std::optional<SmallerRun> smaller;
  graph::Graph graph = graph::capture(
      model.graph_name, inputs, weights,
      [&](const std::vector<Tensor>& given) {
        Run run(model, constants, given, options, smaller ? &*smaller : nullptr);
        std::vector<Tensor> outputs = run.run();
        if (!smaller) smaller = run.made();
        return outputs;
      },
      limits);
  if (!options.state.empty()) mark_state(graph, constants, options.state);
  graph::check_memory(graph, model.graph_name);
  std::vector<std::string> names;
  for (const ValueInfo& info : model.outputs) names.push_back(info.name);
  graph::name_outputs(graph, names);
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
