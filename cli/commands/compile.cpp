// `dlpipe compile`: a trained model as a graph, optimised, in one file that needs none of the model's code.
#include <memory>
#include <optional>
#include <utility>

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

PassChoice choice_of(const std::string& text) {
  return text == "all" ? PassChoice::kAll : text == "none" ? PassChoice::kNone : PassChoice::kSameBits;
}

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
  if (options.list_onnx_ops) {
    for (const std::string& name : engine::onnx::imported_ops()) print_answer(name);
    return {};
  }
  if (options.out.empty()) return misuse("compile", "give the file to write, e.g. -o model.dlg");
  if (options.model.weights.empty() == options.onnx.empty())
    return misuse("compile", "give --ckpt or --onnx, one of them, for what is to be compiled");
  std::optional<StopText> kept(std::in_place, concat("; ", options.out, " was not written"));
  const PassChoice passes = choice_of(options.passes);
  run::ModelOptions model = options.model;
  if (model.weights.empty()) model.weights = options.onnx;
  const run::CompiledModel compiled =
      options.onnx.empty() ? run::compile_model(model, passes) : run::compile_onnx(model, passes);
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
  print_answer(format_table(rows));
  print_answer(concat(printable(options.out), ": ", compiled.graph.name, ", ",
                      human_count(static_cast<int64_t>(compiled.graph.nodes.size())), " nodes"));
  if (compiled.model_peak_bytes > 0) {
    print_answer(concat("peak memory of values, batch of one: ",
                        human_bytes(static_cast<uint64_t>(compiled.graph_peak_bytes)),
                        "; before it was compiled ",
                        human_bytes(static_cast<uint64_t>(compiled.model_peak_bytes))));
  }
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("--ckpt", options->model.weights,
                   "Checkpoint, run directory, safetensors file or compiled model");
  flags.add_option("--onnx", options->onnx, "ONNX model, in place of --ckpt");
  flags.add_option("--out", options->out, "File to write: model.dlg, or model.onnx for ONNX (opset 17)")
      .endings({".dlg", ".onnx"});
  flags.add_option("--model", options->model.model, "Model by name, for a safetensors file");
  flags.add_option("--classes", options->model.classes,
                   "Class names for a safetensors file or an ONNX model: a text file, or a dataset");
  flags.add_option(
      "--val-augment", options->model.val_augment,
      "How pictures are prepared, in place of the checkpoint's. With it predict and eval take an ONNX "
      "model, too");
  flags
      .add_option("--passes", options->passes, "Which optimisations: all, those that keep every bit, or none")
      .choices({"all", "same-bits", "none"});
  flags.add_flag("--list-onnx-ops", options->list_onnx_ops, "Print the ops of ONNX that --onnx takes");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return compile(*options); };
}

}  // namespace

extern const CommandRecord compile_command;
const CommandRecord compile_command = {"compile",
                                       "Make one optimised file of a trained model, for dlpipe run", setup};

}  // namespace dlpipe::cli
