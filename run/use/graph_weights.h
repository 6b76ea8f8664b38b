// Models that no code builds, where weights are asked for: a captured graph in a compiled model, an ONNX file or a
// checkpoint of a run that began with one. Throws Error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

/// A regular file that begins as one.
bool is_onnx_file(const std::string& path);

/// The graph of a compiled model or of an ONNX file, and which of them it is. Nothing where `path` is neither.
struct OpenedGraph {
  engine::graph::Graph graph;
  bool is_compiled = false;
};
std::optional<OpenedGraph> open_graph(const std::string& path);

/// The metadata that compile_model (graph_model.h) writes a ModelState into, as JSON.
inline constexpr const char* kModelKey = "model";
/// What stands there; none where another program wrote the file, or compile was told nothing of pictures.
std::optional<ModelState> state_in(const engine::graph::Graph& graph, const std::string& file);

/// An ONNX file as a graph. `shapes` are of inputs that leave some open, as texts: "x=N,3,224,224", without the name where there is one
/// input. kMisuse says what is wrong with them.
engine::graph::Graph read_onnx(const std::string& path, const std::vector<std::string>& shapes = {});
/// The same for who brings batches of any size: of a file for batches of one size, what engine::onnx::with_any_batch makes of it,
/// where that answers alike, with a note. `check` is called with it before that is tried, which takes a while; it may throw.
engine::graph::Graph read_onnx_of_any_batch(
    const std::string& path, const std::vector<std::string>& shapes, std::vector<std::string>& notes,
    const std::function<void(const engine::graph::Graph&)>& check = nullptr);

/// The file's graph as a model with its weights (WeightsSource::graph), to begin a training with; with its state_in, whose
/// classes are left out where they are numbers, which says that nobody named them. Nothing where `path` is neither a compiled
/// model nor an ONNX file. Error where the graph can't be trained (engine/models/graph_module.h).
std::optional<WeightsSource> open_graph_weights(const std::string& path);

/// The model whose checkpoint this is, where its state holds a graph; else null.
std::shared_ptr<const engine::ModelRecord> graph_of(const ModelState& state,
                                                    const std::vector<engine::NamedTensor>& tensors,
                                                    const std::string& path);

}  // namespace dlpipe::run
