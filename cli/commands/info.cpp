// `dlpipe info`: the build and what this process may use of the machine.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/graph_view.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/weights_view.h"
#include "dlpipe/engine/collective/launched.h"
#include "dlpipe/engine/core/kernel_table.h"
#if DLPIPE_HAVE_CUDA
#include "dlpipe/engine/cuda/cudnn/cudnn.h"
#endif
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/bench/bench_ops.h"
#include "dlpipe/run/bench/bench_run.h"
#include "dlpipe/run/input/path_kind.h"
#include "dlpipe/run/record/build_info.h"
#include "dlpipe/run/use/graph_weights.h"

namespace dlpipe::cli {

namespace {

// What convolutions and attention run on; nothing where there is no GPU for them.
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

struct Options {
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

// Layers, shapes, parameters, FLOPs and memory of a model.
Status print_model(const Options& options, const std::string& name) {
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
  print_answer(prose(concat("batch ", batch, ", forward pass; ", human_count(totals.trainable_parameters),
                            " parameters are trained; weights and buffers ",
                            human_bytes(static_cast<uint64_t>(totals.state_bytes)), ", gradients ",
                            human_bytes(static_cast<uint64_t>(totals.gradient_bytes)))));
  return {};
}

// A compiled model or an ONNX file: its nodes as text, or for Graphviz.
Status print_graph(const Options& options) {
  if (options.path.empty())
    return misuse("info", "--graph and --dot show a compiled model or an ONNX file; give its path");
  if (options.dot && options.json)
    return misuse(
        "info", "--dot prints text for Graphviz and --json JSON; give --graph --json for the nodes as JSON");
  const std::optional<run::OpenedGraph> opened = run::open_graph(options.path);
  if (!opened) throw_if_error(run::refuse_other_kind("info", options.path, run::Wanted::kCompiledModel));
  if (!opened) return engine::graph::read_graph(options.path).status();  // says what it is instead
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
                       {"roofline_bytes_per_s", profile.roofline.bytes_per_s},
                       {"reorders", copies.reorders},
                       {"view_copies", copies.of_views},
                       {"copied_bytes", copies.bytes},
                       {"nodes", std::move(nodes)}})
      .dump();
}

// Each node of a compiled model: its time, and the share of what the machine could do in that time.
Status print_profile(const Options& options) {
  if (options.path.empty()) return misuse("info", "--profile shows a compiled model; give its file");
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
  print_answer(prose(
      concat(fixed(static_cast<double>(total) * 1e-6, 2), " ms for a batch of ", profile.options.batch,
             " with ", profile.options.threads, profile.options.threads == 1 ? " thread" : " threads",
             "; peak memory of values ", human_bytes(static_cast<uint64_t>(profile.peak_bytes)), "; ",
             copies.reorders, copies.reorders == 1 ? " reorder" : " reorders",
             " into or out of blocks of channels and ", copies.of_views,
             copies.of_views == 1 ? " copy of a view, " : " copies of views, ",
             human_bytes(static_cast<uint64_t>(copies.bytes)),
             stays_in_caches ? "; above 100 % of the roofline, which is memory's, values stayed in the caches"
                             : "")));
  return {};
}

Status check_is_no_misspelt_model(const std::string& path) {
  std::error_code ignored;
  if (path.find('/') != std::string::npos || std::filesystem::exists(path, ignored)) return {};
  const std::string near = nearest_name(path, engine::ModelRegistry::builtin().names());
  if (near.empty()) return {};
  return misuse("info", "there is neither a file nor a model '", path, "'; did you mean '", near, "'?");
}

Status info(const Options& options) {
  if (options.profile && (options.graph || options.dot))
    return misuse("info", "--profile shows the nodes in a table of its own; leave --graph and --dot out");
  if (options.profile) return print_profile(options);
  if (options.run.dtype != run::BenchRunOptions().dtype || options.run.threads != 0)
    return misuse("info", "--dtype and --threads are of --profile; give it, too, or leave them out");
  if (options.graph || options.dot) return print_graph(options);
  if (!options.path.empty() && !options.model.empty())
    return misuse("info", "--model shows a model by its name alone; leave it out with a path");
  if (run::is_kind(options.path, run::Wanted::kModelName)) return print_model(options, options.path);
  DLPIPE_RETURN_IF_ERROR(check_is_no_misspelt_model(options.path));
  std::optional<run::OpenedGraph> opened;
  try {
    opened = run::open_graph(options.path);
  } catch (const Error& error) {
    if (options.json || !run::is_onnx_file(options.path)) throw;
    // What it holds is worth knowing all the more.
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

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags
      .add_option(
          "PATH", options->path,
          "Run, checkpoint, compiled model, ONNX or safetensors file: show what it holds; or a model's name: "
          "show its layers. Without it: the build and the machine")
      .optional();
  flags.add_flag("--json", options->json, "Print one JSON line");
  flags.add_flag("--graph", options->graph, "Print the nodes of a compiled model or an ONNX file");
  flags.add_flag("--profile", options->profile, "Run a compiled model (--batch) and print each node's time");
  flags.add_flag("--dot", options->dot, "Print the same nodes for Graphviz (dot -Tsvg)");
  flags.add_option("--model", options->model, "Show the layers of the model of this name, as PATH does");
  flags
      .add_option("--size", options->arguments.height,
                  "Height and width of the model's images, or its tokens; 0: the model's own")
      .range(0, 65536);
  flags.add_option("--channels", options->arguments.channels, "Channels of the model's images").range(1, 4);
  flags.add_option("--classes", options->arguments.classes, "Classes of the model").range(1, 1 << 24);
  flags
      .add_option(
          "--batch", options->batch,
          "Images per batch, for FLOPs and memory; 0: one, or as many as a compiled model was made for")
      .range(0, 1 << 24);
  flags.add_option("--dtype", options->run.dtype, "With --profile: f32 or bf16");
  flags.add_option("--threads", options->run.threads, "With --profile; 0: as many as the process may use")
      .range(0, kMostThreads);
  return [options] { return info(*options); };
}

}  // namespace

extern const CommandRecord info_command;
const CommandRecord info_command = {
    "info", "Show the build and the machine, a model's layers, or what a weights file holds", setup};

}  // namespace dlpipe::cli
