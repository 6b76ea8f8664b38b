#include "dlpipe/run/use/graph_weights.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/models/graph_module.h"
#include "dlpipe/engine/onnx/import.h"
#include "dlpipe/io/formats/foreign_weights.h"

namespace dlpipe::run {

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
  if (is_onnx_file(path))
    return OpenedGraph{engine::onnx::import_model(value_or_throw(engine::onnx::read_model(path))), false};
  return std::nullopt;
}

std::optional<WeightsSource> open_graph_weights(const std::string& path) {
  std::optional<OpenedGraph> opened = open_graph(path);
  if (!opened) return std::nullopt;
  engine::TrainableGraph trainable = engine::trainable_graph(std::move(opened->graph));
  WeightsSource source;
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
