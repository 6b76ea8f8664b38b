// Models that are captured graphs, compiled or from an ONNX file: trained, used where weights are, compiled.
//
// Models without code that builds them, used as weights: a captured graph in a compiled model, an ONNX file, or a checkpoint of
// a run that began with one. Throws Error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "engine/graph/passes.h"
#include "run/record/checkpoint.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

/// Whether `path` is a regular file that begins like an ONNX file.
bool is_onnx_file(const std::string& path);

/// Whether `path` is a file that is a model itself: captured, compiled or ONNX.
bool is_model_file(const std::string& path);
/// Throws kMisuse, by `command`, if `model`, the value of its --model, has the name of such a file but is not one.
void check_named_model_file(const char* command, const std::string& model);

/// The graph of a compiled model or of an ONNX file, and which of them it is. nullopt if `path` is neither.
struct OpenedGraph {
  engine::graph::Graph graph;
  bool is_compiled = false;
};
std::optional<OpenedGraph> open_graph(const std::string& path);

/// The metadata that compile_model (graph_model.h) writes a ModelState into, as JSON.
inline constexpr const char* kModelKey = "model";
/// Reads it; nullopt if another program wrote the file, or if compile did not know about images.
std::optional<ModelState> state_in(const engine::graph::Graph& graph, const std::string& file);

/// An ONNX file as a graph. `shapes` are texts for inputs with open sizes: "x=N,3,224,224", without the name if there is only
/// one input. kMisuse says what is wrong with them.
engine::graph::Graph read_onnx(const std::string& path, const std::vector<std::string>& shapes = {});
/// The same for batches of any size: a file for one batch size is converted with engine::onnx::with_any_batch if the results stay
/// the same, which adds a note. Comparing results takes a while; `check` is called before, and may throw.
engine::graph::Graph read_onnx_of_any_batch(
    const std::string& path, const std::vector<std::string>& shapes, std::vector<std::string>& notes,
    const std::function<void(const engine::graph::Graph&)>& check = nullptr, bool live_batch_norm = false);

/// The file's graph as a model with its weights (WeightsSource::graph), to begin a training with, and its state_in(). Classes
/// that are numbers are left out of that, because they were never named. nullopt if `path` is neither a compiled model nor an
/// ONNX file. Throws if the graph can't be trained (engine/models/graph_module.h). `live_batch_norm`: batch norms of an ONNX file
/// are live (engine::onnx::ImportOptions).
std::optional<WeightsSource> open_graph_weights(const std::string& path, bool live_batch_norm = false);

/// What the model returns that a training with these options starts from: the model in the file `config.model`, else the one that
/// the weights `config.init` record. kImage if there is no such file or it does not record its model. Does not throw: what is
/// wrong with the file is reported when it is opened to train.
engine::ModelOutput output_of_file(const TrainConfig& config);

/// The model of this checkpoint if its state has a graph; else null.
std::shared_ptr<const engine::ModelRecord> graph_of(const ModelState& state,
                                                    const std::vector<engine::NamedTensor>& tensors,
                                                    const std::string& path);

// Compiled models (.dlg, engine/graph/FORMAT.md) as trained models: eval and predict accept them like checkpoints. Throws
// Error.

/// A graph with one input and one output as a module in eval mode; its weights are the module's buffers.
class GraphModel final : public engine::Module {
 public:
  explicit GraphModel(engine::graph::Graph graph);
  engine::Tensor forward(const engine::Tensor& x) override;
  std::string kind() const override { return "Graph"; }
  const engine::graph::Graph& graph() const { return runner_.graph(); }

 private:
  engine::graph::Runner runner_;
};

/// Which passes `dlpipe compile` runs.
enum class PassChoice : uint8_t { kAll, kSameBits, kNone };

struct CompiledModel {
  engine::graph::Graph graph;  // with the model's state in its metadata
  size_t captured_nodes = 0;
  std::vector<engine::graph::PassReport> passes;
  std::vector<std::string> notes;  // of load_model
  // Peak memory of values for a batch of one: of the model as written, and of its graph. 0: there is no model.
  int64_t model_peak_bytes = 0;
  int64_t graph_peak_bytes = 0;
};
/// Compiles the forward pass of the model that `options.weights` names: weights of a built-in model, a compiled model, or an ONNX
/// file. An ONNX file that compile wrote records the preparation of images and the classes. A file of another program does not.
/// With `options.val_augment` (including normalize), its graph gets images [N,H,W,C] as input and logits as output, and eval and
/// predict accept it; classes are numbers unless `options.classes` names them. Otherwise it is compiled unchanged, for dlpipe
/// run.
CompiledModel compile_model(const ModelOptions& options, PassChoice passes,
                            const Registries& registries = {});

/// An ONNX file as such a model, for eval and predict: images are prepared according to `options`, the file (if compile wrote
/// it), or `dataset`, which may be null.
LoadedModel load_onnx_model(const ModelOptions& options, const Registries& registries,
                            const data::Dataset* dataset);

/// Loads a compiled model's file, like load_model. kMisuse for options that only apply to other weights, or if the graph was
/// compiled without information about images and classes.
LoadedModel load_graph_model(const ModelOptions& options, const Registries& registries);

}  // namespace dlpipe::run
