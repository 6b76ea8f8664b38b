#include "dlpipe/run/use/graph_model.h"

#include <optional>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/inference_mode.h"
#include "dlpipe/engine/graph/capture.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/output_names.h"
#include "dlpipe/engine/models/capture_model.h"
#include "dlpipe/engine/models/picture_graph.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/use/class_names.h"
#include "dlpipe/run/use/graph_weights.h"

namespace dlpipe::run {

namespace {

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

// `graph` for pictures [N,H,W,C], answering logits: of a softmax at its end they are what enters it.
engine::graph::Graph of_pictures(engine::graph::Graph graph) {
  const int producer = graph.producers()[static_cast<size_t>(graph.outputs[0])];
  if (producer >= 0) {
    const engine::graph::Node& last = graph.nodes[static_cast<size_t>(producer)];
    if (engine::graph::is_op(last, "sigmoid"))
      refuse(
          "weights", graph.name,
          " ends in a sigmoid: its labels don't exclude one another, and predict and eval take one class per "
          "picture; dlpipe compile without --val-augment and dlpipe run give its outputs");
    if (engine::graph::is_op(last, "softmax") || engine::graph::is_op(last, "log_softmax"))
      graph.outputs[0] = last.inputs[0];
  }
  const engine::PictureGraph pictures = engine::picture_graph(graph);
  if (!pictures.channels_first) return graph;
  std::vector<std::pair<std::string, engine::Tensor>> weights;
  const std::vector<std::string> names = engine::graph::constant_names(graph);
  for (size_t i = 0; i < names.size(); ++i) {
    if (graph.values[i].is_constant()) weights.emplace_back(names[i], graph.values[i].constant);
  }
  const engine::graph::Runner runner(graph);
  const engine::graph::CaptureInput input = {
      graph.value(graph.inputs[0]).name,
      engine::Tensor::zeros({1, pictures.height, pictures.width, pictures.channels}).spec(), engine::bit(0)};
  engine::graph::Graph turned = engine::graph::capture(
      graph.name, {&input, 1}, weights, [&](const std::vector<engine::Tensor>& inputs) {
        const engine::Tensor x = engine::transpose(inputs[0], {0, 3, 1, 2});
        return runner.forward({&x, 1});
      });
  engine::graph::name_outputs(turned, engine::graph::output_names(graph));
  turned.metadata = std::move(graph.metadata);
  return turned;
}

CompiledModel compiled_from(engine::graph::Graph graph) {
  CompiledModel compiled;
  compiled.captured_nodes = graph.nodes.size();
  compiled.graph = std::move(graph);
  return compiled;
}

void refuse_name_of_model(const ModelOptions& options) {
  if (!options.model.empty())
    refuse("weights", options.weights, " is a model itself; leave --model ", options.model, " out");
}

/// What the file's numbers stand for: as `options` say, else as it says itself.
ModelState state_of_file(const engine::graph::Graph& graph, ModelOptions options,
                         const Registries& registries, const data::Dataset* dataset,
                         std::vector<std::string>& notes) {
  const std::optional<ModelState> own = state_in(graph, options.weights);
  if (!own) return state_of_pictures(graph, options, registries, dataset, notes);
  if (options.val_augment.empty()) options.val_augment = own->val_augment;
  if (options.tta.empty()) options.tta = own->tta;
  std::vector<std::string> of_others;  // notes on what it doesn't say
  ModelState state = state_of_pictures(graph, options, registries, dataset, of_others);
  if (options.classes.empty() && own->classes.size() == state.classes.size()) state.classes = own->classes;
  return state;
}

struct OnnxPictures {
  CompiledModel compiled;
  ModelState state;
};

OnnxPictures compile_pictures(const ModelOptions& options, PassChoice passes, const Registries& registries,
                              const data::Dataset* dataset) {
  refuse_name_of_model(options);
  std::vector<std::string> notes, of_trial;
  const auto check = [&](const engine::graph::Graph& graph) {
    state_of_file(graph, options, registries, dataset, of_trial);
  };
  OnnxPictures made = {
      compiled_from(read_onnx_of_any_batch(options.weights, options.input_shapes, notes, check)), {}};
  CompiledModel& compiled = made.compiled;
  compiled.notes = std::move(notes);
  made.state = state_of_file(compiled.graph, options, registries, dataset, compiled.notes);
  compiled.graph = of_pictures(std::move(compiled.graph));
  compiled.graph.metadata[kModelKey] = to_json(made.state).dump();
  run_passes(compiled, passes);
  return made;
}

CompiledModel compile_onnx(const ModelOptions& options, PassChoice passes, const Registries& registries) {
  const bool says_pictures = !options.classes.empty() || !options.val_augment.empty();
  if (says_pictures) return compile_pictures(options, passes, registries, nullptr).compiled;
  refuse_name_of_model(options);
  // What compile wrote of a model stands in its metadata.
  CompiledModel compiled = compiled_from(read_onnx(options.weights, options.input_shapes));
  run_passes(compiled, passes);
  return compiled;
}

/// A compiled model that doesn't say what its numbers stand for, for dlpipe run as it was; none of other weights.
std::optional<CompiledModel> compile_again(const ModelOptions& options, PassChoice passes) {
  if (!options.val_augment.empty() || !engine::graph::is_graph_file(options.weights)) return std::nullopt;
  engine::graph::Graph graph = value_or_throw(engine::graph::read_graph(options.weights));
  if (state_in(graph, options.weights)) return std::nullopt;
  refuse_options(options);
  CompiledModel compiled = compiled_from(std::move(graph));
  run_passes(compiled, passes);
  return compiled;
}

}  // namespace

GraphModel::GraphModel(engine::graph::Graph graph) : runner_(std::move(graph)) {
  if (runner_.graph().inputs.size() != 1 || runner_.graph().outputs.size() != 1) {
    refuse("graph", runner_.graph().name, " has ", runner_.graph().inputs.size(), " inputs and ",
           runner_.graph().outputs.size(), " outputs; this needs one of each, dlpipe run takes any");
  }
  for (const engine::graph::Value& value : runner_.graph().values) {
    if (value.is_constant()) add_buffer(value.name, value.constant);
  }
  eval();
}

engine::Tensor GraphModel::forward(const engine::Tensor& x) {
  return runner_.run({&x, 1})[0];
}

CompiledModel compile_model(const ModelOptions& options, PassChoice passes, const Registries& registries) {
  if (is_onnx_file(options.weights)) return compile_onnx(options, passes, registries);
  if (!options.input_shapes.empty())
    refuse("weights", "--input-shape is for ONNX files, and ", options.weights, " is none; leave it out");
  if (auto plain = compile_again(options, passes)) return std::move(*plain);
  LoadedModel loaded = load_model(options, registries);
  CompiledModel compiled;
  compiled.notes = std::move(loaded.notes);
  compiled.graph = engine::capture_model(*loaded.model, loaded.state.arguments, loaded.state.model);
  compiled.captured_nodes = compiled.graph.nodes.size();
  run_passes(compiled, passes);
  const engine::Tensor x = engine::blank_input(loaded.state.arguments, 1);
  compiled.model_peak_bytes = peak_bytes_of([&] {
    const engine::InferenceMode mode;
    (*loaded.model)(x);
  });
  const engine::graph::Runner runner(compiled.graph);
  runner.run({&x, 1});  // packs the weights, which are no values
  compiled.graph_peak_bytes = peak_bytes_of([&] { runner.run({&x, 1}); });
  loaded.state.graph.clear();  // the file is the graph
  compiled.graph.metadata[kModelKey] = to_json(loaded.state).dump();
  return compiled;
}

LoadedModel load_onnx_model(const ModelOptions& options, const Registries& registries,
                            const data::Dataset* dataset) {
  OnnxPictures pictures = compile_pictures(options, PassChoice::kAll, registries, dataset);
  LoadedModel loaded;
  loaded.path = options.weights;
  loaded.state = std::move(pictures.state);
  loaded.notes = std::move(pictures.compiled.notes);
  loaded.model = std::make_shared<GraphModel>(std::move(pictures.compiled.graph));
  return loaded;
}

LoadedModel load_graph_model(const ModelOptions& options, const Registries& registries) {
  refuse_options(options);
  engine::graph::Graph graph = value_or_throw(engine::graph::read_graph(options.weights));
  std::optional<ModelState> state = state_in(graph, options.weights);
  if (!state) {
    refuse("weights", options.weights,
           " doesn't say what its numbers stand for; compile it anew with --val-augment (and --classes), or "
           "take dlpipe run");
  }
  LoadedModel loaded;
  loaded.path = options.weights;
  loaded.state = std::move(*state);
  if (loaded.state.classes.empty()) loaded.state.classes = numbered_classes(loaded.state.arguments.classes);
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
  // GraphModel knows by now that there is one output.
  const engine::graph::Graph& own = static_cast<const GraphModel&>(*loaded.model).graph();
  const Shape& answer = own.value(own.outputs[0]).shape;
  if (answer.rank() == 0 || answer[-1] != loaded.state.arguments.classes)
    throw Error(Status(ErrorCode::kCorrupt,
                       concat("[graph] ", options.weights, " says that it tells ",
                              loaded.state.arguments.classes, " classes apart, and its output is ",
                              own.value(own.outputs[0]).type_text(), "; compile the model again")));
  return loaded;
}

}  // namespace dlpipe::run
