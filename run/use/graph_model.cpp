#include "dlpipe/run/use/graph_model.h"

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/models/capture_model.h"
#include "dlpipe/engine/onnx/import.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

namespace {

constexpr const char* kModelKey = "model";

void refuse_options(const ModelOptions& options) {
  const std::pair<const char*, const std::string*> others[] = {{"--model", &options.model},
                                                               {"--classes", &options.classes}};
  for (const auto& [name, value] : others) {
    if (!value->empty())
      refuse("weights", options.weights, " is a compiled model, which says that itself; leave ", name,
             " out");
  }
}

template <class Function>
int64_t peak_bytes_of(const Function& function) {
  const auto before = static_cast<int64_t>(engine::allocator_statistics().used_bytes);
  engine::reset_peak();
  function();
  return static_cast<int64_t>(engine::allocator_statistics().peak_used_bytes) - before;
}

void run_passes(CompiledModel& compiled, PassChoice passes) {
  if (passes != PassChoice::kNone)
    compiled.passes = engine::graph::optimize(compiled.graph, passes == PassChoice::kSameBits);
}

}  // namespace

/// Of pictures: [N,C,H,W].
static bool is_channels_first(const engine::graph::Value& input) {
  constexpr int64_t kMostChannels = 4;
  return input.shape.rank() == 4 && input.shape[1] <= kMostChannels && input.shape[3] > kMostChannels;
}

GraphModel::GraphModel(engine::graph::Graph graph) : runner_(std::move(graph)) {
  if (runner_.graph().inputs.size() != 1 || runner_.graph().outputs.size() != 1) {
    refuse("graph", runner_.graph().name, " has ", runner_.graph().inputs.size(), " inputs and ",
           runner_.graph().outputs.size(), " outputs; this needs one of each, dlpipe run takes any");
  }
  for (const engine::graph::Value& value : runner_.graph().values) {
    if (value.is_constant()) add_buffer(value.name, value.constant);
  }
  takes_channels_first_ = is_channels_first(runner_.graph().value(runner_.graph().inputs[0]));
  eval();
}

engine::Tensor GraphModel::forward(const engine::Tensor& x) {
  if (!takes_channels_first_) return runner_.run({&x, 1})[0];
  const engine::Tensor pictures = engine::transpose(x, {0, 3, 1, 2});
  return runner_.run({&pictures, 1})[0];
}

CompiledModel compile_model(const ModelOptions& options, PassChoice passes, const Registries& registries) {
  LoadedModel loaded = load_model(options, registries);
  CompiledModel compiled;
  compiled.notes = std::move(loaded.notes);
  compiled.graph = engine::capture_model(*loaded.model, loaded.state.arguments, loaded.state.model);
  compiled.captured_nodes = compiled.graph.nodes.size();
  run_passes(compiled, passes);
  const engine::Tensor x = engine::blank_input(loaded.state.arguments, 1);
  compiled.model_peak_bytes = peak_bytes_of([&] {
    const engine::NoGrad no_grad;
    (*loaded.model)(x);
  });
  const engine::graph::Runner runner(compiled.graph);
  runner.run({&x, 1});  // packs the weights, which are no values
  compiled.graph_peak_bytes = peak_bytes_of([&] { runner.run({&x, 1}); });
  loaded.state.graph.clear();  // the file is the graph
  compiled.graph.metadata[kModelKey] = to_json(loaded.state).dump();
  return compiled;
}

CompiledModel compile_onnx(const std::string& path, PassChoice passes) {
  CompiledModel compiled;
  compiled.graph = engine::onnx::import_model(value_or_throw(engine::onnx::read_model(path)));
  compiled.captured_nodes = compiled.graph.nodes.size();
  run_passes(compiled, passes);
  return compiled;
}

engine::graph::Graph classifier_graph(const std::string& onnx_path) {
  engine::graph::Graph graph = compile_onnx(onnx_path, PassChoice::kAll).graph;
  if (!graph.nodes.empty() && graph.outputs.size() == 1) {
    const engine::graph::Node& last = graph.nodes.back();
    const bool is_softmax = std::string_view(last.op->record->name) == "softmax" &&
                            last.outputs.size() == 1 && last.outputs.front() == graph.outputs.front();
    if (is_softmax) {
      graph.outputs.front() = last.inputs.front();
      graph.nodes.pop_back();
    }
  }
  return graph;
}

engine::ModelArguments picture_arguments(const engine::graph::Graph& graph) {
  const engine::graph::Value& x = graph.value(graph.inputs[0]);
  const engine::graph::Value& y = graph.value(graph.outputs[0]);
  const bool is_first = is_channels_first(x);
  if (x.dtype != DType::kF32 || x.shape.rank() != 4 || x.shape[0] != 1 || (!is_first && x.shape[3] > 4) ||
      y.shape.rank() != 2 || y.shape[0] != 1) {
    refuse("weights", graph.name, " takes ", x.type_text(), " and answers ", y.type_text(),
           "; pictures are f32 [N,C,H,W] or [N,H,W,C], and answers [N,classes]. For other graphs: dlpipe "
           "compile --onnx, then "
           "dlpipe run");
  }
  engine::ModelArguments arguments;
  arguments.classes = y.shape[1];
  arguments.channels = x.shape[is_first ? 1 : 3];
  arguments.height = x.shape[is_first ? 2 : 1];
  arguments.width = x.shape[is_first ? 3 : 2];
  return arguments;
}

LoadedModel load_graph_model(const ModelOptions& options, const Registries& registries) {
  refuse_options(options);
  engine::graph::Graph graph = value_or_throw(engine::graph::read_graph(options.weights));
  const auto state = graph.metadata.find(kModelKey);
  if (state == graph.metadata.end()) {
    refuse(
        "weights", options.weights,
        " doesn't say what its numbers stand for, as it wasn't compiled from a checkpoint; take dlpipe run");
  }
  LoadedModel loaded;
  loaded.path = options.weights;
  loaded.state = value_or_throw(
      model_state_from_json(value_or_throw(formats::Json::parse(state->second)), options.weights));
  if (!options.val_augment.empty()) {
    if (!value_or_throw(augment::Chain::parse(options.val_augment, registries.augmentations))
             .contains("normalize"))
      refuse("weights",
             "--val-augment for a compiled model has to say how pictures are normalised; its own is \"",
             loaded.state.val_augment, "\"");
    loaded.state.val_augment = options.val_augment;
  }
  if (!options.tta.empty()) loaded.state.tta = options.tta;
  loaded.model = std::make_shared<GraphModel>(std::move(graph));
  return loaded;
}

}  // namespace dlpipe::run
