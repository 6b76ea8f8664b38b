// `dlpipe info` shows the build and the machine; the layers of a model; the contents of a run, a checkpoint or a weights file; the nodes
// of a compiled model or an ONNX file.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/onnx.h"
#include "engine/collective/launched.h"
#include "engine/core/kernel_table.h"
#include "engine/graph/graph_file.h"
#include "io/formats/json.h"
#include "io/formats/weights_file.h"
#include "run/bench/bench.h"
#include "run/input/path_kind.h"
#include "run/record/receipt.h"
#include "run/use/graph_model.h"
#include "run/use/loaded_model.h"
#if DLPIPE_HAVE_CUDA
#include "engine/cuda/cudnn/cudnn.h"
#endif

namespace dlpipe::cli {

namespace {

using engine::graph::Graph;
using engine::graph::ValueId;
using formats::Json;

constexpr size_t kMostList =
    8192;  // maximum bytes of a list of names, since a file may have any number of them

// Compiled models and ONNX files.

/// The number of values in the weights that nodes use, without running statistics and integers (shapes, positions) from folding.
int64_t parameters_of(const Graph& graph) {
  constexpr size_t kMean = 3, kVariance = 4;  // of batch_norm's inputs
  std::set<ValueId> weights;
  for (const engine::graph::Node& node : graph.nodes) {
    const bool is_norm = std::string_view(node.op->name()) == "batch_norm";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == engine::graph::kNone || (is_norm && (i == kMean || i == kVariance))) continue;
      if (graph.value(id).is_constant() && is_floating(graph.value(id).dtype)) weights.insert(id);
    }
  }
  int64_t parameters = 0;
  for (const ValueId id : weights) parameters += graph.value(id).shape.elements();
  return parameters;
}

/// `state` as lines, beginning with its classes.
std::string state_text(const run::ModelState& state) {
  std::string text = concat("\nclasses     ", human_count(state.arguments.classes));
  if (!state.classes.empty()) text += ": " + quoted_names(state.classes);
  if (state.arguments.length == 0)
    text += concat("\ninput       ", state.arguments.height, "x", state.arguments.width, "x",
                   state.arguments.channels);
  if (!state.val_augment.empty()) text += concat("\nchain       ", state.val_augment);
  return text + concat("\ntta         ", state.tta, "\ndtype       ", state.dtype, " in training");
}

/// Names of classes; [] if there is no state.
Json classes_json(const std::optional<run::ModelState>& state) {
  Json classes = Json::array();
  if (state)
    for (const std::string& name : state->classes) classes.push_back(name);
  return classes;
}

/// The facts of state_text() as keys; null if there is no state.
void add_state(const std::optional<run::ModelState>& state, Json& json) {
  json.set("class_count", state ? Json(state->arguments.classes) : Json())
      .set("classes", classes_json(state))
      .set("val_augment", state ? Json(state->val_augment) : Json())
      .set("tta", state ? Json(state->tta) : Json())
      .set("dtype", state ? Json(state->dtype) : Json());
}

std::map<std::string, int64_t> nodes_by_op(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const engine::graph::Node& node : graph.nodes) ++counts[node.op->name()];
  return counts;
}

std::string values_text(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) {
    const engine::graph::Value& value = graph.value(id);
    text += concat(text.empty() ? "" : ", ", short_name(value.name), " ", value.type_text());
  }
  return shortened(text, kMostList);
}

Json values_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json values = Json::array();
  for (const ValueId id : ids) {
    const engine::graph::Value& value = graph.value(id);
    values.push_back(Json::object({{"name", value.name}, {"type", value.type_text()}}));
  }
  return values;
}

std::string graph_summary(const std::string& path, const Graph& graph, bool is_compiled) {
  std::string ops;
  for (const auto& [name, count] : nodes_by_op(graph))
    ops += concat(ops.empty() ? "" : ", ", count, " ", name);
  constexpr size_t kColumn = 12;
  const std::optional<run::ModelState> state = run::state_in(graph, path);
  return prose(concat("path        ", printable(path), "\nmodel       ", short_name(graph.name),
                      is_compiled ? ", compiled" : ", ONNX", "\ninputs      ",
                      values_text(graph, graph.inputs), "\noutputs     ", values_text(graph, graph.outputs),
                      state ? state_text(*state) : "", "\nparameters  ", human_count(parameters_of(graph)),
                      "\nnodes       ", human_count(static_cast<int64_t>(graph.nodes.size())), ": ", ops,
                      "\n            --graph prints them, ",
                      is_compiled ? std::string("--profile times them")
                                  : concat("`dlpipe compile ", shell_word(path),
                                           " -o model.dlg` compiles them to a file that runs")),
               kColumn);
}

std::string onnx_summary(const std::string& path, const engine::onnx::Model& model) {
  const auto values = [](const std::vector<engine::onnx::ValueInfo>& infos) {
    std::string text;
    for (const engine::onnx::ValueInfo& info : infos)
      text +=
          concat(text.empty() ? "" : ", ", short_name(info.name), " ",
                 engine::onnx::element_type_name(info.type), " ", short_name(engine::onnx::shape_text(info)));
    return shortened(text, kMostList);
  };
  std::map<std::string, int64_t> counts;
  for (const engine::onnx::NodeEntry& node : model.nodes) ++counts[node.op];
  std::string ops;
  for (const auto& [name, count] : counts)
    ops += concat(ops.empty() ? "" : ", ", count, " ", short_name(name));
  const auto opset = model.opsets.find("");
  constexpr size_t kColumn = 12;
  return prose(
      concat("path        ", printable(path), "\nmodel       ", short_name(model.graph_name), ", ONNX opset ",
             opset == model.opsets.end() ? 1 : opset->second, " of ", short_name(model.producer), " ",
             short_name(model.producer_version), "\ninputs      ", values(engine::onnx::open_inputs(model)),
             "\noutputs     ", values(model.outputs), "\nnodes       ",
             human_count(static_cast<int64_t>(model.nodes.size())), ": ", shortened(ops, kMostList)),
      kColumn);
}

Json graph_summary_json(const std::string& path, const Graph& graph, bool is_compiled) {
  Json ops = Json::object();
  for (const auto& [name, count] : nodes_by_op(graph)) ops.set(name, count);
  Json json = Json::object();
  json.set_path("path", path)
      .set("kind", is_compiled ? "graph" : "onnx")
      .set("model", graph.name)
      .set("inputs", values_json(graph, graph.inputs))
      .set("outputs", values_json(graph, graph.outputs))
      .set("parameters", parameters_of(graph))
      .set("nodes", static_cast<int64_t>(graph.nodes.size()))
      .set("ops", std::move(ops));
  add_state(run::state_in(graph, path), json);
  return json;
}

using formats::Json;

// The facts that text and JSON show.
struct Facts {
  std::string kind = "checkpoint";        // or that of the file
  std::map<std::string, int64_t> dtypes;  // number of tensors of each
  int64_t parameters = 0;                 // elements, without counters and running statistics
  std::string model;                      // the checkpoint's, or the one that the tensors fit
  int64_t classes = 0;                    // 0: unknown
  std::string chain;                      // the checkpoint's, or for a bare file eval's default
  std::string normalization;              // for a bare file: its origin
};

bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") ||
         name.ends_with("num_batches_tracked");
}

Facts facts_of(const run::WeightsSource& source) {
  Facts facts;
  if (source.checkpoint_tensors.empty()) {
    const auto file = value_or_throw(formats::WeightsFile::open(source.path));
    for (const auto& entry : file.entries()) ++facts.dtypes[entry.dtype_text];
    if (!source.state || source.step < 0) facts.kind = file.kind();
  } else {
    for (const auto& tensor : source.checkpoint_tensors) {
      std::string dtype(dtype_name(tensor.tensor.dtype()));
      std::transform(dtype.begin(), dtype.end(), dtype.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      ++facts.dtypes[dtype];
    }
  }
  for (const engine::NamedShape& tensor : source.shapes) {
    if (!is_statistic(tensor.name)) facts.parameters += tensor.shape.elements();
  }
  if (source.state) {
    facts.model = source.state->model;
    facts.classes = source.state->arguments.classes;
    facts.chain = source.state->val_augment;
    return facts;
  }
  facts.model = run::fitting_model(source.shapes, {});
  if (facts.model.empty()) return facts;
  const auto& record = *value_or_throw(engine::ModelRegistry::builtin().find(facts.model));
  const auto arguments = run::arguments_from(source.shapes, record);
  facts.classes = arguments->classes;
  const auto found =
      run::normalization_of(source, record, arguments->channels, augment::OpRegistry::builtin());
  if (found.op.empty()) return facts;
  facts.chain = concat(run::default_cut(record, nullptr), " ", found.op);
  facts.normalization = found.origin;
  return facts;
}

std::string weights_text(const run::WeightsSource& source) {
  const Facts facts = facts_of(source);
  std::string dtypes;
  for (const auto& [name, count] : facts.dtypes)
    dtypes += concat(dtypes.empty() ? "" : ", ", human_count(count), " ", name);
  std::string text = concat("path        ", printable(source.path), "\ntensors     ",
                            human_count(static_cast<int64_t>(source.shapes.size())), ": ", dtypes,
                            "\nparameters  ", human_count(facts.parameters), "\n");
  for (const std::string& note : source.notes) text += concat("note        ", printable(note), "\n");
  if (facts.model.empty())
    return text + "model       unknown: no model of dlpipe's has these names and shapes\n";
  text += concat("model       ", facts.model,
                 !source.state      ? ", by names and shapes"
                 : source.step >= 0 ? concat(", step ", source.step)
                                    : ", as recorded in the file");
  if (source.state) {
    text += state_text(*source.state);
  } else {
    text += concat("\nclasses     ", human_count(facts.classes));
    if (!facts.chain.empty()) text += concat("\nchain       ", facts.chain);
    if (!facts.normalization.empty())
      text += concat("\n            the normalisation is ", facts.normalization);
  }
  constexpr size_t kColumn = 12;
  return prose(text, kColumn) + "\n";
}

Json weights_json(const run::WeightsSource& source) {
  const Facts facts = facts_of(source);
  Json dtypes = Json::object();
  for (const auto& [name, count] : facts.dtypes) dtypes.set(name, count);
  Json json = Json::object();
  json.set_path("path", source.path)
      .set("kind", facts.kind)
      .set("tensors", static_cast<int64_t>(source.shapes.size()))
      .set("dtypes", std::move(dtypes))
      .set("parameters", facts.parameters)
      .set("model", facts.model)
      .set("class_count", facts.classes)
      .set("val_augment", facts.chain)
      .set("step", Json())
      .set("tta", Json())
      .set("dtype", Json());
  if (source.state) {
    if (source.step >= 0) json.set("step", source.step);
    json.set("tta", source.state->tta);
    json.set("dtype", source.state->dtype);
  }
  json.set("classes", classes_json(source.state));
  return json;
}

// The build and the machine.

// The library for convolutions and attention; "" if there is no GPU.
std::string convolution_library() {
#if DLPIPE_HAVE_CUDA
  if (cuda_device(0).ok()) return engine::cuda::cudnn_summary();
#endif
  return {};
}

void print_info() {
  std::string libraries;
  for (const auto& [name, version] : run::library_versions()) {
    libraries += concat(libraries.empty() ? "" : ", ", name, " ", version);
  }
  const std::string cudnn = convolution_library();
  constexpr size_t kColumn = 11;
  print_answer(prose(concat("build      ", run::build_line(), "\ncpu        ", cpu_model(), "\nisa        ",
                            cpu_isa(), " (engine: ", engine::isa_name(engine::kernel_isa()), ")\nthreads    ",
                            available_threads(), "\nmemory     ", human_bytes(available_memory_bytes()),
                            "\ngpu        ", cuda_summary(), cudnn.empty() ? "" : "\ncudnn      ", cudnn,
                            "\nranks      ", engine::ranks_library(), "\nlibraries  ", libraries),
                     kColumn));
}

void print_info_json() {
  using formats::Json;
  Json libraries = Json::object();
  for (const auto& [name, version] : run::library_versions()) libraries.set(name, version);
  print_answer(Json::object({{"build", run::build_line()},
                             {"cpu", cpu_model()},
                             {"isa", cpu_isa()},
                             {"engine_isa", engine::isa_name(engine::kernel_isa())},
                             {"threads", available_threads()},
                             {"memory_bytes", static_cast<int64_t>(available_memory_bytes())},
                             {"gpu", cuda_summary()},
                             {"cudnn", convolution_library()},
                             {"ranks", engine::ranks_library()},
                             {"libraries", std::move(libraries)}})
                   .dump());
}

struct InfoOptions {
  std::string path;
  bool json = false;
  std::string model;
  engine::ModelArguments arguments = {.classes = 10, .channels = 3, .height = 0, .width = 0, .seed = 0};
  int64_t batch = 0;
  bool graph = false;
  bool dot = false;
  bool profile = false;
  run::BenchRunOptions run = {};
};

std::string model_json(const std::string& name, int64_t batch, const engine::ModelSummary& summary) {
  using formats::Json;
  Json layers = Json::array();
  for (const engine::LayerSummary& layer : summary.layers) {
    layers.push_back(Json::object({{"name", layer.name},
                                   {"kind", layer.kind},
                                   {"output", layer.output.to_string()},
                                   {"parameters", layer.parameters},
                                   {"flops", layer.flops},
                                   {"output_bytes", layer.output_bytes}}));
  }
  return Json::object({{"model", name},
                       {"batch", batch},
                       {"parameters", summary.parameters},
                       {"trainable_parameters", summary.trainable_parameters},
                       {"state_bytes", summary.state_bytes},
                       {"gradient_bytes", summary.gradient_bytes},
                       {"activation_bytes", summary.activation_bytes},
                       {"flops", summary.flops},
                       {"layers", std::move(layers)}})
      .dump();
}

std::string layers_table(const engine::ModelSummary& totals) {
  std::vector<std::vector<std::string>> rows = {{"layer", "kind", "output", "parameters", "MFLOP", "memory"}};
  for (const engine::LayerSummary& layer : totals.layers) {
    rows.push_back({layer.name, layer.kind, layer.output.to_string(), human_count(layer.parameters),
                    fixed(layer.flops * 1e-6, 2), human_bytes(static_cast<uint64_t>(layer.output_bytes))});
  }
  rows.push_back({"total", "", "", human_count(totals.parameters), fixed(totals.flops * 1e-6, 2),
                  human_bytes(static_cast<uint64_t>(totals.activation_bytes))});
  return format_table(rows);
}

// Prints layers, shapes, parameters, FLOPs and memory of a model.
Status print_model(const InfoOptions& options, const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const engine::ModelRecord* record, engine::ModelRegistry::builtin().find(name));
  engine::ModelArguments arguments = options.arguments;
  if (arguments.height == 0) arguments.height = record->default_size > 0 ? record->default_size : 32;
  arguments.width = arguments.height;
  if (record->input == engine::ModelInput::kTokens) arguments.length = arguments.height;
  const auto model = record->build(arguments);
  const int64_t batch = std::max<int64_t>(1, options.batch);
  if (options.json) {
    print_answer(model_json(name, batch, engine::summarize(*model, arguments, batch)));
    return {};
  }
  const engine::ModelSummary totals = engine::summarize(*model, arguments, batch);
  print_answer(layers_table(totals));
  print_answer(prose(concat("batch ", batch, ", forward pass; ",
                            counted(totals.trainable_parameters, "trainable parameter"),
                            "; weights and buffers ", human_bytes(static_cast<uint64_t>(totals.state_bytes)),
                            ", gradients ", human_bytes(static_cast<uint64_t>(totals.gradient_bytes)))));
  return {};
}

// Prints the nodes of a compiled model or an ONNX file as text, or for Graphviz.
Status print_graph(const InfoOptions& options) {
  if (options.path.empty())
    return misuse("info", "--graph and --dot show a compiled model or an ONNX file; give its path");
  if (options.dot && options.json)
    return misuse("info", "--dot prints text for Graphviz; for the nodes as JSON give --graph --json");
  const std::optional<run::OpenedGraph> opened = run::open_graph(options.path);
  if (!opened) throw_if_error(run::refuse_other_kind("info", options.path, run::Wanted::kCompiledModel));
  if (!opened) return engine::graph::read_graph(options.path).status();  // the error says what it is instead
  if (options.json) {
    print_answer(engine::graph::graph_json(opened->graph));
    return {};
  }
  std::string text =
      options.dot ? engine::graph::to_dot(opened->graph) : engine::graph::to_text(opened->graph);
  text.pop_back();  // print_answer ends the line
  print_answer(text);
  return {};
}

std::string profile_json(const run::RunProfile& profile, int64_t total_ns,
                         const engine::graph::LayoutCopies& copies) {
  using formats::Json;
  Json nodes = Json::array();
  for (const run::NodeRate& node : profile.nodes) {
    const auto seconds = static_cast<double>(std::max<int64_t>(node.cost.ns, 1)) * 1e-9;
    nodes.push_back(Json::object({{"name", node.name},
                                  {"op", node.cost.op},
                                  {"inputs", node.cost.inputs},
                                  {"ns", node.cost.ns},
                                  {"flops_per_s", node.cost.flops / seconds},
                                  {"bytes_per_s", node.cost.bytes / seconds},
                                  {"roofline_share", run::roofline_share(node.cost, profile.roofline)},
                                  {"copied_bytes", node.copies.bytes}}));
  }
  return Json::object({{"model", profile.options.model},
                       {"batch", profile.options.batch},
                       {"threads", profile.options.threads},
                       {"dtype", profile.options.dtype},
                       {"ns", total_ns},
                       {"peak_bytes", profile.peak_bytes},
                       {"roofline_flops_per_s", profile.roofline.flops_per_s},
                       {"roofline_dtype", dtype_name(profile.roofline.dtype)},
                       {"roofline_bytes_per_s", profile.roofline.bytes_per_s},
                       {"reorders", copies.reorders},
                       {"view_copies", copies.of_views},
                       {"copied_bytes", copies.bytes},
                       {"nodes", std::move(nodes)}})
      .dump();
}

// Prints the time of each node of a compiled model, and its share of what the machine could do in that time.
Status print_profile(const InfoOptions& options) {
  if (options.path.empty()) return misuse("info", "--profile times a compiled model; give its file");
  run::BenchRunOptions bench = options.run;
  bench.seconds = 2;
  bench.model = options.path;
  bench.batch = options.batch;
  const run::RunProfile profile = run::profile_run(bench);
  int64_t total = 0;
  engine::graph::LayoutCopies copies = profile.output_copies;
  for (const run::NodeRate& node : profile.nodes) {
    total += node.cost.ns;
    copies += node.copies;
  }
  if (options.json) {
    print_answer(profile_json(profile, total, copies));
    return {};
  }
  std::vector<std::vector<std::string>> rows = {
      {"node", "op", "ms", "share", "GFLOP/s", "GB/s", "of roofline", "copied"}};
  bool stays_in_caches = false;
  for (const run::NodeRate& node : profile.nodes) {
    const auto ns = static_cast<double>(std::max<int64_t>(node.cost.ns, 1));
    stays_in_caches = stays_in_caches || run::roofline_share(node.cost, profile.roofline) > 1;
    rows.push_back({short_name(node.name), node.cost.op, fixed(ns * 1e-6, 3),
                    concat(fixed(100 * ns / static_cast<double>(std::max<int64_t>(total, 1)), 1), " %"),
                    fixed(node.cost.flops / ns, 1), fixed(node.cost.bytes / ns, 1),
                    concat(fixed(100 * run::roofline_share(node.cost, profile.roofline), 0), " %"),
                    node.copies.count() == 0 ? "" : human_bytes(static_cast<uint64_t>(node.copies.bytes))});
  }
  print_answer(format_table(rows));
  print_answer(prose(concat(
      fixed(static_cast<double>(total) * 1e-6, 2), " ms for a batch of ", profile.options.batch, " with ",
      counted(profile.options.threads, "thread"), "; peak memory of values ",
      human_bytes(static_cast<uint64_t>(profile.peak_bytes)), "; ", counted(copies.reorders, "reorder"),
      " into or out of blocks of channels and ",
      counted(copies.of_views, "copy of a view", "copies of views"), ", ",
      human_bytes(static_cast<uint64_t>(copies.bytes)),
      stays_in_caches
          ? "; nodes above 100 % of the roofline, which assumes main memory, had their values in caches"
          : "")));
  return {};
}

Status check_is_no_misspelt_model(const std::string& path) {
  std::error_code ignored;
  if (path.find('/') != std::string::npos || std::filesystem::exists(path, ignored)) return {};
  const std::string near = nearest_name(path, engine::ModelRegistry::builtin().names());
  if (near.empty()) return {};
  return misuse("info", "'", path, "' is neither a file nor a model; did you mean '", near, "'?");
}

Status info(const InfoOptions& options) {
  if (options.profile && (options.graph || options.dot))
    return misuse("info", "--profile prints the nodes in its own table; leave --graph and --dot out");
  if (options.profile) return print_profile(options);
  if (options.run.dtype != run::BenchRunOptions().dtype || options.run.threads != 0)
    return misuse("info", "--dtype and --threads need --profile; give it, too, or leave them out");
  if (options.graph || options.dot) return print_graph(options);
  if (!options.path.empty() && !options.model.empty())
    return misuse("info", "--model shows a model by its name, without a file; leave out --model or the path");
  if (run::is_kind(options.path, run::Wanted::kModelName)) return print_model(options, options.path);
  DLPIPE_RETURN_IF_ERROR(check_is_no_misspelt_model(options.path));
  std::optional<run::OpenedGraph> opened;
  try {
    opened = run::open_graph(options.path);
  } catch (const Error& error) {
    if (options.json || !run::is_onnx_file(options.path)) throw;
    // Print what the file holds, although it can't be imported.
    print_answer(onnx_summary(options.path, value_or_throw(engine::onnx::read_model(options.path))));
    return error.status();
  }
  if (opened) {
    print_answer(options.json ? graph_summary_json(options.path, opened->graph, opened->is_compiled).dump()
                              : graph_summary(options.path, opened->graph, opened->is_compiled));
    return {};
  }
  if (!options.path.empty()) {
    const run::WeightsSource source = run::open_weights(options.path);
    print_answer(options.json ? weights_json(source).dump() : weights_text(source));
    return {};
  }
  if (!options.model.empty()) return print_model(options, options.model);
  if (options.json) {
    print_info_json();
  } else {
    print_info();
  }
  return {};
}

std::function<Status()> setup_info(Flags& flags) {
  auto options = std::make_shared<InfoOptions>();
  flags
      .add_option("PATH", options->path,
                  "A run, checkpoint, compiled model, ONNX or safetensors file: show its contents; or a "
                  "model's name: "
                  "show its layers. Without PATH: show the build and the machine")
      .optional();
  flags.add_flag("--json", options->json, "Print one JSON line");
  flags.add_flag("--graph", options->graph, "Print the nodes of a compiled model or an ONNX file");
  flags.add_flag("--profile", options->profile, "Run a compiled model (--batch) and print each node's time");
  flags.add_flag("--dot", options->dot, "Print the same nodes for Graphviz (dot -Tsvg)");
  flags.add_option("--model", options->model, "Show the layers of this model; the same as its name as PATH");
  flags
      .add_option("--size", options->arguments.height,
                  "Height and width of the model's images, or its tokens; 0: the model's own")
      .range(0, 65536);
  flags.add_option("--channels", options->arguments.channels, "Channels of the model's images").range(1, 4);
  flags.add_option("--classes", options->arguments.classes, "Classes of the model").range(1, 1 << 24);
  flags
      .add_option(
          "--batch", options->batch,
          "Images per batch, for FLOPs and memory; 0: one, or as many as a compiled model was compiled for")
      .range(0, 1 << 24);
  flags.add_option("--dtype", options->run.dtype, "With --profile: f32 or bf16");
  flags.add_option("--threads", options->run.threads, "With --profile; 0: as many as the process may use")
      .range(0, kMostThreads);
  return [options] { return info(*options); };
}

}  // namespace

extern const CommandRecord info_command;
const CommandRecord info_command = {
    "info", "Show the build and the machine, a model's layers, or a weights file's contents", setup_info};

}  // namespace dlpipe::cli
