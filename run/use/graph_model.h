// Compiled models (.dlg, engine/graph/FORMAT.md) where a trained model is asked for: eval and predict take them as they
// take checkpoints. Throws Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/use/loaded_model.h"

namespace dlpipe::run {

/// A graph of one input and one output as a module in eval mode; its weights are the module's buffers.
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
  // Most memory of values at once, for a batch of one: the model as written, its graph. 0: there is no model.
  int64_t model_peak_bytes = 0;
  int64_t graph_peak_bytes = 0;
};
/// The forward pass of the model that `options.weights` names: weights of a model that dlpipe builds, a compiled model, or an
/// ONNX file. An ONNX file that compile wrote says how pictures are prepared and what the classes are. One of another program
/// doesn't: where `options.val_augment` (with normalize) says it, the graph takes pictures [N,H,W,C] and answers logits, and
/// eval and predict take it, with numbers for the classes that `options.classes` doesn't name. Else it is compiled as it is,
/// for dlpipe run.
CompiledModel compile_model(const ModelOptions& options, PassChoice passes,
                            const Registries& registries = {});

/// An ONNX file as such a model, for eval and predict: pictures are prepared as `options`, the file, where compile wrote it, or `dataset`,
/// which may be null, says.
LoadedModel load_onnx_model(const ModelOptions& options, const Registries& registries,
                            const data::Dataset* dataset);

/// What a compiled model's file holds, as load_model answers it. kMisuse where options are given that only other
/// weights take, or where the graph was compiled from something that says nothing of pictures and classes.
LoadedModel load_graph_model(const ModelOptions& options, const Registries& registries);

}  // namespace dlpipe::run
