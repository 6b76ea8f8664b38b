#include "dlpipe/run/use/graph_weights.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/models/graph_module.h"
#include "dlpipe/engine/onnx/any_batch.h"
#include "dlpipe/engine/onnx/import.h"
#include "dlpipe/io/formats/foreign_weights.h"

namespace dlpipe::run {

namespace {

// "N,3,224,224"
std::vector<int64_t> sizes_in(std::string_view text, std::string_view given) {
  std::vector<int64_t> sizes;
  for (const std::string_view word : split(text, ',')) {
    int64_t size = 0;
    if (sizes.empty() && (word == "N" || word == "n")) {
      size = engine::onnx::kAnyBatch;
    } else if (!parse_int(word, &size) || size < 1) {
      refuse("onnx", "--input-shape ", given, ": '", word,
             "' is no size; give it as NAME=N,3,224,224, where N is a batch of any size");
    }
    sizes.push_back(size);
  }
  return sizes;
}

engine::onnx::ImportOptions import_options(const engine::onnx::Model& model,
                                           const std::vector<std::string>& shapes) {
  engine::onnx::ImportOptions options;
  for (const std::string& given : shapes) {
    const size_t equals = given.rfind('=');
    std::string name = equals == std::string::npos ? "" : given.substr(0, equals);
    if (name.empty()) {
      const std::vector<engine::onnx::ValueInfo> inputs = engine::onnx::open_inputs(model);
      if (inputs.size() != 1)
        refuse("onnx", "--input-shape ", given, ": the model has ", inputs.size(),
               " inputs; give NAME=SIZES for each");
      name = inputs[0].name;
    }
    options.shapes[name] = sizes_in(given.substr(equals == std::string::npos ? 0 : equals + 1), given);
  }
  return options;
}

/// Whether classes are "0", "1" and so on: what class_names.h gives where nobody named them.
bool are_numbers(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] != std::to_string(i)) return false;
  }
  return true;
}

}  // namespace

std::optional<ModelState> state_in(const engine::graph::Graph& graph, const std::string& file) {
  const auto text = graph.metadata.find(kModelKey);
  if (text == graph.metadata.end()) return std::nullopt;
  const auto json = formats::Json::parse(text->second);
  if (!json.ok()) return std::nullopt;
  auto state = model_state_from_json(*json, file);
  return state.ok() ? std::optional(std::move(*state)) : std::nullopt;
}

bool is_onnx_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe's bytes are read once
  std::array<char, 64> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return formats::begins_as_onnx({begin.data(), static_cast<size_t>(file.gcount())});
}

std::optional<OpenedGraph> open_graph(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (engine::graph::is_graph_file(path))
    return OpenedGraph{value_or_throw(engine::graph::read_graph(path)), true};
  if (is_onnx_file(path)) return OpenedGraph{read_onnx(path), false};
  return std::nullopt;
}

engine::graph::Graph read_onnx(const std::string& path, const std::vector<std::string>& shapes) {
  const engine::onnx::Model model = value_or_throw(engine::onnx::read_model(path));
  return engine::onnx::import_model(model, import_options(model, shapes));
}

engine::graph::Graph read_onnx_of_any_batch(const std::string& path, const std::vector<std::string>& shapes,
                                            std::vector<std::string>& notes,
                                            const std::function<void(const engine::graph::Graph&)>& check) {
  const engine::onnx::Model model = value_or_throw(engine::onnx::read_model(path));
  engine::graph::Graph graph = engine::onnx::import_model(model, import_options(model, shapes));
  std::optional<engine::graph::Graph> any = engine::onnx::with_any_batch(model, graph);
  if (!any) return graph;
  if (check) check(*any);
  if (!engine::onnx::answer_alike(graph, *any)) return graph;
  notes.push_back(
      concat(path, " was exported for batches of ", graph.value(graph.inputs[0]).shape[0],
             " alone; it answers the same in batches of any size, so that is what it takes here"));
  return std::move(*any);
}

std::optional<WeightsSource> open_graph_weights(const std::string& path) {
  WeightsSource source;
  std::optional<engine::graph::Graph> graph;
  if (is_onnx_file(path)) {
    graph = read_onnx_of_any_batch(path, {}, source.notes);
  } else if (std::optional<OpenedGraph> opened = open_graph(path)) {
    graph = std::move(opened->graph);
  }
  if (!graph) return std::nullopt;
  source.state = state_in(*graph, path);
  if (source.state && are_numbers(source.state->classes)) source.state->classes.clear();
  source.step = -1;
  engine::TrainableGraph trainable = engine::trainable_graph(std::move(*graph));
  source.path = path;
  source.graph = std::move(trainable.record);
  source.checkpoint_tensors = std::move(trainable.weights);
  for (const engine::NamedTensor& tensor : source.checkpoint_tensors)
    source.shapes.push_back({tensor.name, tensor.tensor.shape()});
  return source;
}

std::shared_ptr<const engine::ModelRecord> graph_of(const ModelState& state,
                                                    const std::vector<engine::NamedTensor>& tensors,
                                                    const std::string& path) {
  if (state.graph.empty()) return nullptr;
  std::map<std::string, engine::Tensor> constants;
  for (const engine::NamedTensor& tensor : tensors) constants.emplace(tensor.name, tensor.tensor);
  return engine::trainable_graph(value_or_throw(engine::graph::parse_graph(state.graph, constants, path)))
      .record;
}

}  // namespace dlpipe::run
