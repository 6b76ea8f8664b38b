// `dlpipe compile`: a trained model as a graph, optimised, in one file that needs none of the model's code.
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "dlpipe/base/named_values.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/onnx/export.h"
#include "dlpipe/engine/onnx/import.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/use/graph_model.h"
#include "dlpipe/run/use/graph_weights.h"

namespace dlpipe::cli {

namespace {

using formats::Json;
using run::PassChoice;

struct Options {
  run::ModelOptions model;
  std::string onnx;
  std::string out;
  std::string passes = "all";
  bool list_onnx_ops = false;
  bool json = false;
};

constexpr Named<PassChoice> kPassNames[] = {
    {"all", PassChoice::kAll}, {"same-bits", PassChoice::kSameBits}, {"none", PassChoice::kNone}};

Json report_json(const Options& options, const run::CompiledModel& compiled) {
  Json passes = Json::array();
  for (const engine::graph::PassReport& report : compiled.passes) {
    passes.push_back(Json::object({{"pass", report.pass->name},
                                   {"changes", report.changes},
                                   {"nodes", static_cast<int64_t>(report.nodes)}}));
  }
  return Json::object({{"file", options.out},
                       {"name", compiled.graph.name},
                       {"captured_nodes", static_cast<int64_t>(compiled.captured_nodes)},
                       {"nodes", static_cast<int64_t>(compiled.graph.nodes.size())},
                       {"model_peak_bytes", compiled.model_peak_bytes},
                       {"graph_peak_bytes", compiled.graph_peak_bytes},
                       {"passes", std::move(passes)}});
}

Status compile(const Options& options) {
  if (options.list_onnx_ops && options.json) {
    Json names = Json::array();
    for (const std::string& name : engine::onnx::imported_ops()) names.push_back(name);
    print_answer(Json::object({{"ops", std::move(names)}}).dump());
    return {};
  }
  if (options.list_onnx_ops) {
    for (const std::string& name : engine::onnx::imported_ops()) print_answer(name);
    return {};
  }
  if (options.out.empty()) return misuse("compile", "give the file to write, e.g. -o model.dlg");
  run::ModelOptions model = options.model;
  if (model.weights.empty()) model.weights = options.onnx;
  if (model.weights.empty())
    return misuse("compile", "give what is to be compiled: a run, a checkpoint, or a file with a model");
  if (!options.model.weights.empty() && !options.onnx.empty())
    return misuse("compile", "CKPT and --onnx both name a model; give one");
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("compile", "--out", options.out, options.json));
  if (!options.onnx.empty() && !run::is_onnx_file(options.onnx)) {
    run::read_onnx(options.onnx);  // says what is wrong
    return {ErrorCode::kUnsupported, concat("[compile] ", options.onnx,
                                            " doesn't begin as today's ONNX models do; save it again "
                                            "(onnx.save) with an ir_version of 3 or more")};
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(model.weights, options.out, ignored))
    return misuse("compile", "--out ", options.out,
                  " is the file to compile, which would be gone; give another name");
  std::optional<StopText> kept(std::in_place, concat("; ", options.out, " was not written"));
  const PassChoice passes = value_or_throw(value_named(kPassNames, options.passes, "compile", "--passes"));
  const run::CompiledModel compiled = run::compile_model(model, passes);
  for (const std::string& note : compiled.notes) print_note(printable(note));
  DLPIPE_RETURN_IF_ERROR(
      options.out.ends_with(".onnx")
          ? engine::onnx::write_model(options.out, engine::onnx::export_graph(compiled.graph))
          : engine::graph::write_graph(options.out, compiled.graph));
  kept.reset();
  if (options.json) {
    print_answer(report_json(options, compiled).dump());
    return {};
  }
  std::vector<std::vector<std::string>> rows = {
      {"pass", "changes", "nodes"},
      {"capture", "", human_count(static_cast<int64_t>(compiled.captured_nodes))}};
  for (const engine::graph::PassReport& report : compiled.passes)
    rows.push_back(
        {report.pass->name, human_count(report.changes), human_count(static_cast<int64_t>(report.nodes))});
  print_beside(options.out, format_table(rows));
  print_beside(options.out, concat(printable(options.out), ": ", compiled.graph.name, ", ",
                                   human_count(static_cast<int64_t>(compiled.graph.nodes.size())), " nodes"));
  if (compiled.model_peak_bytes > 0) {
    print_beside(options.out, concat("peak memory of values, batch of one: ",
                                     human_bytes(static_cast<uint64_t>(compiled.graph_peak_bytes)),
                                     "; before it was compiled ",
                                     human_bytes(static_cast<uint64_t>(compiled.model_peak_bytes))));
  }
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags
      .add_option("CKPT", options->model.weights,
                  "What to compile: a run (its best checkpoint), a checkpoint, an ONNX file, a safetensors "
                  "file, or a compiled model")
      .optional();
  flags.add_option("--onnx", options->onnx, "The ONNX file to compile; CKPT takes one, too");
  flags.add_option("--out", options->out, "File to write: model.dlg, or model.onnx for ONNX (opset 17)")
      .writes_file({".dlg", ".onnx"});
  flags.add_option("--model", options->model.model, "Model by name, for a safetensors file");
  flags.add_option(
      "--classes", options->model.classes,
      "Class names for a safetensors file or an ONNX file: a text file with one per line, or a dataset");
  flags.add_option(
      "--val-augment", options->model.val_augment,
      "How pictures are prepared; by default as the checkpoint says. An ONNX file of another program doesn't "
      "say it: without this option only dlpipe run takes what is compiled, with it predict and eval, too");
  flags.add_option("--input-shape", options->model.input_shapes,
                   "Sizes of an ONNX file's input that it leaves open, for each such input: "
                   "NAME=N,3,224,224, where N is a batch of any size");
  flags
      .add_option("--passes", options->passes, "Which optimisations: all, those that keep every bit, or none")
      .choices(names_of(kPassNames));
  flags.add_flag("--list-onnx-ops", options->list_onnx_ops,
                 "Print the ops that an ONNX file may have, and no more");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return compile(*options); };
}

}  // namespace

extern const CommandRecord compile_command;
const CommandRecord compile_command = {
    "compile", "Compile a trained model into one file, for predict, eval and run", setup};

}  // namespace dlpipe::cli
