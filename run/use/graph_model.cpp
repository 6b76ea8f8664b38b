#include "run/use/graph_model.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"
#include "engine/graph/capture.h"
#include "engine/graph/graph_file.h"
#include "engine/graph/matching.h"
#include "engine/models/box_coding.h"
#include "engine/models/graph_module.h"
#include "engine/onnx/any_batch.h"
#include "io/formats/atomic_file.h"
#include "io/formats/weights_file.h"
#include "run/record/checkpoint.h"
#include "run/task/task.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

namespace {

// The sizes in a text such as "N,3,224,224".
std::vector<int64_t> sizes_in(std::string_view text, std::string_view given) {
  std::vector<int64_t> sizes;
  for (const std::string_view word : split(text, ',')) {
    int64_t size = 0;
    if (sizes.empty() && (word == "N" || word == "n")) {
      size = engine::onnx::kAnyBatch;
    } else if (!parse_int(word, &size) || size < 1) {
      refuse("onnx", "--input-shape ", given, ": '", word,
             "' is not a size; give it as NAME=N,3,224,224, where N is a batch of any size");
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

/// Whether classes are "0", "1" and so on, which loaded_model.h uses for unnamed classes.
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
                                            const std::function<void(const engine::graph::Graph&)>& check,
                                            bool live_batch_norm) {
  const engine::onnx::Model model = value_or_throw(engine::onnx::read_model(path));
  engine::onnx::ImportOptions options = import_options(model, shapes);
  options.live_batch_norm = live_batch_norm;
  engine::graph::Graph graph = engine::onnx::import_model(model, options);
  std::optional<engine::graph::Graph> any = engine::onnx::with_any_batch(model, graph);
  if (!any) return graph;
  if (check) check(*any);
  if (!engine::onnx::answer_alike(graph, *any)) return graph;
  notes.push_back(concat(path, " was exported for batches of ", graph.value(graph.inputs[0]).shape[0],
                         "; it computes the same in batches of any size, so any size is accepted here"));
  return std::move(*any);
}

/// Records in `graph` how its output encodes boxes, if `state` says that it does.
static void record_boxes(const ModelState& state, engine::graph::Graph& graph) {
  if (task_of(state.task).output == engine::ModelOutput::kBoxes)
    graph.metadata[engine::kBoxesKey] = engine::box_coding_json(state.task.boxes).dump();
}

bool is_model_file(const std::string& path) {
  return is_onnx_file(path) || engine::graph::is_graph_file(path);
}

void check_named_model_file(const char* command, const std::string& model) {
  const auto ending = std::filesystem::path(model).extension();
  if ((ending != ".dlm" && ending != ".dlg" && ending != ".onnx") || is_model_file(model)) return;
  refuse(command, "--model ", model,
         std::filesystem::exists(model) ? " is not a captured, compiled or ONNX model"
                                        : ": there is no such file");
}

std::optional<WeightsSource> open_graph_weights(const std::string& path, bool live_batch_norm) {
  WeightsSource source;
  std::optional<engine::graph::Graph> graph;
  if (is_onnx_file(path)) {
    graph = read_onnx_of_any_batch(path, {}, source.notes, nullptr, live_batch_norm);
  } else if (std::optional<OpenedGraph> opened = open_graph(path)) {
    graph = std::move(opened->graph);
  }
  if (!graph) return std::nullopt;
  source.state = state_in(*graph, path);
  if (source.state && are_numbers(source.state->classes)) source.state->classes.clear();
  if (source.state) record_boxes(*source.state, *graph);
  source.step = -1;
  engine::TrainableGraph trainable = engine::trainable_graph(std::move(*graph));
  source.path = path;
  source.graph = std::move(trainable.record);
  source.checkpoint_tensors = std::move(trainable.weights);
  for (const engine::NamedTensor& tensor : source.checkpoint_tensors)
    source.shapes.push_back({tensor.name, tensor.tensor.shape()});
  return source;
}

/// The state in the checkpoint or in the file of weights at `path`.
static std::optional<ModelState> state_of_weights(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return open_weights(path).state;
  const std::string file = concat(value_or_throw(find_checkpoint(path)), "/state.json");
  return value_or_throw(checkpoint_state_from_json(value_or_throw(formats::read_json(file)), file)).model;
}

engine::ModelOutput output_of_file(const TrainConfig& config) {
  const std::string& path = is_model_file(config.model) ? config.model : config.init;
  if (path.empty()) return engine::ModelOutput::kImage;
  try {
    if (const std::optional<OpenedGraph> graph = open_graph(path)) {
      if (const auto state = state_in(graph->graph, path)) return task_of(state->task).output;
      const engine::ImageGraph images = engine::image_graph(graph->graph);
      return images.boxes       ? engine::ModelOutput::kBoxes
             : images.of_places ? engine::ModelOutput::kPixels
                                : engine::ModelOutput::kImage;
    }
    const std::optional<ModelState> state = state_of_weights(path);
    return state ? task_of(state->task).output : engine::ModelOutput::kImage;
  } catch (const Error&) {
    return engine::ModelOutput::kImage;
  }
}

std::shared_ptr<const engine::ModelRecord> graph_of(const ModelState& state,
                                                    const std::vector<engine::NamedTensor>& tensors,
                                                    const std::string& path) {
  if (state.graph.empty()) return nullptr;
  std::map<std::string, engine::Tensor> constants;
  for (const engine::NamedTensor& tensor : tensors) constants.emplace(tensor.name, tensor.tensor);
  engine::graph::Graph graph = value_or_throw(engine::graph::parse_graph(state.graph, constants, path));
  record_boxes(state, graph);
  return engine::trainable_graph(std::move(graph)).record;
}

namespace {

void refuse_options(const ModelOptions& options) {
  const std::pair<const char*, const std::string*> others[] = {{"--model", &options.model},
                                                               {"--classes", &options.classes}};
  for (const auto& [name, value] : others) {
    if (!value->empty())
      refuse("weights", options.weights, " is a compiled model, which already records this; leave ", name,
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

// Makes `graph` take images [N,H,W,C] and return logits. If it ends in a softmax, the logits are the softmax's input.
engine::graph::Graph of_images(engine::graph::Graph graph) {
  const int producer = graph.producers()[static_cast<size_t>(graph.outputs[0])];
  if (producer >= 0) {
    const engine::graph::Node& last = graph.nodes[static_cast<size_t>(producer)];
    if (engine::graph::is_op(last, "sigmoid"))
      refuse("weights", graph.name,
             " ends in a sigmoid: its labels are not exclusive, but predict and eval expect one class per "
             "image; dlpipe compile without --val-augment and dlpipe run return its outputs");
    if (engine::graph::is_op(last, "softmax") || engine::graph::is_op(last, "log_softmax"))
      graph.outputs[0] = last.inputs[0];
  }
  const engine::ImageGraph images = engine::image_graph(graph);
  if (!images.channels_first) return graph;
  std::vector<std::pair<std::string, engine::Tensor>> weights;
  const std::vector<std::string> names = engine::graph::constant_names(graph);
  for (size_t i = 0; i < names.size(); ++i) {
    if (graph.values[i].is_constant()) weights.emplace_back(names[i], graph.values[i].constant);
  }
  const engine::graph::Runner runner(graph);
  const engine::graph::CaptureInput input = {
      graph.value(graph.inputs[0]).name,
      engine::Tensor::zeros({1, images.height, images.width, images.channels}).spec(), engine::bit(0)};
  engine::graph::Graph turned = engine::graph::capture(
      graph.name, {&input, 1}, weights, [&](const std::vector<engine::Tensor>& inputs) {
        const engine::Tensor x = engine::transpose(inputs[0], {0, 3, 1, 2});
        return std::vector<engine::Tensor>{engine::channels_last(runner.forward({&x, 1})[0], images)};
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
    refuse("weights", options.weights, " is itself a model; leave --model ", options.model, " out");
}

/// Throws kCorrupt unless the output of `graph`, read from `file`, has the numbers that `state` claims.
void check_output(const engine::graph::Graph& graph, const ModelState& state, const std::string& file) {
  const engine::graph::Value& answer = graph.value(graph.outputs[0]);
  const int64_t sides =
      task_of(state.task).output == engine::ModelOutput::kBoxes ? state.task.boxes.others : 0;
  if (answer.shape.rank() == 0 || answer.shape[-1] != state.arguments.classes + sides)
    throw Error(Status(ErrorCode::kCorrupt, concat("[graph] ", file, " claims ", state.arguments.classes,
                                                   " classes, but its output is ", answer.type_text(),
                                                   "; compile the model again")));
}

void check_normalises(const ModelOptions& options, const ModelState& own, const Registries& registries) {
  if (!value_or_throw(augment::Chain::parse(options.val_augment, registries.augmentations))
           .contains("normalize"))
    refuse("weights", "--val-augment for a compiled model must normalise the images; its own is \"",
           own.val_augment, "\"");
}

/// Applies `options` to a state that the file records.
void take_options(ModelState& state, const ModelOptions& options, const Registries& registries) {
  if (state.classes.empty()) state.classes = numbered_classes(state.arguments.classes);
  if (!options.val_augment.empty()) {
    check_normalises(options, state, registries);
    state.val_augment = options.val_augment;
  }
  if (!options.tta.empty()) state.tta = options.tta;
}

/// The state that compile recorded for a model of a task other than classify, with `options` applied.
ModelState state_of_task(const engine::graph::Graph& graph, ModelState state, const ModelOptions& options,
                         const Registries& registries) {
  engine::image_graph(graph);  // one input, one output
  check_output(graph, state, options.weights);
  if (!options.classes.empty())
    refuse("weights", options.weights, " records the names of its outputs; leave --classes out");
  take_options(state, options, registries);
  return state;
}

/// The meaning of the file's inputs and outputs: from `options`, else from the file.
ModelState state_of_file(const engine::graph::Graph& graph, ModelOptions options,
                         const Registries& registries, const data::Dataset* dataset,
                         std::vector<std::string>& notes) {
  const std::optional<ModelState> own = state_in(graph, options.weights);
  if (!own) return state_of_images(graph, options, registries, dataset, notes);
  if (own->task.name != "classify") return state_of_task(graph, *own, options, registries);
  if (options.val_augment.empty()) options.val_augment = own->val_augment;
  if (options.tta.empty()) options.tta = own->tta;
  std::vector<std::string> of_others;  // notes on missing records, which this file has
  ModelState state = state_of_images(graph, options, registries, dataset, of_others);
  if (options.classes.empty() && own->classes.size() == state.classes.size()) state.classes = own->classes;
  return state;
}

struct OnnxImages {
  CompiledModel compiled;
  ModelState state;
};

OnnxImages compile_images(const ModelOptions& options, PassChoice passes, const Registries& registries,
                          const data::Dataset* dataset) {
  refuse_name_of_model(options);
  std::vector<std::string> notes, of_trial;
  const auto check = [&](const engine::graph::Graph& graph) {
    state_of_file(graph, options, registries, dataset, of_trial);
  };
  OnnxImages made = {
      compiled_from(read_onnx_of_any_batch(options.weights, options.input_shapes, notes, check)), {}};
  CompiledModel& compiled = made.compiled;
  compiled.notes = std::move(notes);
  made.state = state_of_file(compiled.graph, options, registries, dataset, compiled.notes);
  compiled.graph = of_images(std::move(compiled.graph));
  compiled.graph.metadata[kModelKey] = to_json(made.state).dump();
  run_passes(compiled, passes);
  return made;
}

CompiledModel compile_onnx(const ModelOptions& options, PassChoice passes, const Registries& registries) {
  const bool says_images = !options.classes.empty() || !options.val_augment.empty();
  if (says_images) return compile_images(options, passes, registries, nullptr).compiled;
  refuse_name_of_model(options);
  // A model's metadata holds the information that compile wrote.
  CompiledModel compiled = compiled_from(read_onnx(options.weights, options.input_shapes));
  run_passes(compiled, passes);
  return compiled;
}

/// Compiles a model again that was compiled without the meaning of its inputs and outputs, for dlpipe run. nullopt for other
/// weights.
std::optional<CompiledModel> compile_again(const ModelOptions& options, PassChoice passes) {
  if (!options.val_augment.empty() || !engine::graph::is_graph_file(options.weights)) return std::nullopt;
  engine::graph::Graph graph =
      engine::graph::inference_form(value_or_throw(engine::graph::read_graph(options.weights)));
  if (state_in(graph, options.weights)) return std::nullopt;
  refuse_options(options);
  CompiledModel compiled = compiled_from(std::move(graph));
  run_passes(compiled, passes);
  return compiled;
}

}  // namespace

GraphModel::GraphModel(engine::graph::Graph graph) : runner_(std::move(graph)) {
  if (runner_.graph().inputs.size() != 1 || runner_.graph().outputs.size() != 1) {
    refuse("graph", runner_.graph().name, " has ",
           counted(static_cast<int64_t>(runner_.graph().inputs.size()), "input"), " and ",
           counted(static_cast<int64_t>(runner_.graph().outputs.size()), "output"),
           "; this command needs one of each; dlpipe run accepts any number");
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
    refuse("weights", "--input-shape is only for ONNX files, but ", options.weights,
           " is not one; leave it out");
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
  runner.run({&x, 1});  // packs the weights, which are not values
  compiled.graph_peak_bytes = peak_bytes_of([&] { runner.run({&x, 1}); });
  loaded.state.graph.clear();  // the file is the graph
  compiled.graph.metadata[kModelKey] = to_json(loaded.state).dump();
  return compiled;
}

LoadedModel load_onnx_model(const ModelOptions& options, const Registries& registries,
                            const data::Dataset* dataset) {
  OnnxImages images = compile_images(options, PassChoice::kAll, registries, dataset);
  LoadedModel loaded;
  loaded.path = options.weights;
  loaded.state = std::move(images.state);
  loaded.notes = std::move(images.compiled.notes);
  loaded.model = std::make_shared<GraphModel>(std::move(images.compiled.graph));
  return loaded;
}

LoadedModel load_graph_model(const ModelOptions& options, const Registries& registries) {
  refuse_options(options);
  engine::graph::Graph graph =
      engine::graph::inference_form(value_or_throw(engine::graph::read_graph(options.weights)));
  std::optional<ModelState> state = state_in(graph, options.weights);
  if (!state) {
    refuse("weights", options.weights,
           " does not record what its inputs and outputs mean; compile it again with --val-augment (and "
           "--classes), or "
           "use dlpipe run");
  }
  LoadedModel loaded;
  loaded.path = options.weights;
  loaded.state = std::move(*state);
  take_options(loaded.state, options, registries);
  loaded.model = std::make_shared<GraphModel>(std::move(graph));
  // GraphModel has checked that there is one output.
  const engine::graph::Graph& own = static_cast<const GraphModel&>(*loaded.model).graph();
  check_output(own, loaded.state, options.weights);
  return loaded;
}

}  // namespace dlpipe::run
