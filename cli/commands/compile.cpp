// Models as files for other programs: `dlpipe compile` (a trained model as an optimised graph, in one file that runs without the
// model's code), `dlpipe run` (a compiled model on arrays) and `dlpipe export-weights` (a checkpoint's weights as safetensors).
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/machine.h"
#include "base/messages.h"
#include "base/names.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "io/formats/npy.h"
#include "run/config/values.h"
#include "run/input/path_kind.h"
#include "run/record/checkpoint.h"
#include "run/use/graph_model.h"
#include "run/use/loaded_model.h"

namespace dlpipe::cli {

namespace {

using formats::Json;
using run::PassChoice;

struct CompileOptions {
  run::ModelOptions model;
  std::string onnx;
  std::string out;
  std::string passes = "all";
  bool list_onnx_ops = false;
  bool json = false;
};

constexpr Named<PassChoice> kPassNames[] = {
    {"all", PassChoice::kAll}, {"same-bits", PassChoice::kSameBits}, {"none", PassChoice::kNone}};

Json report_json(const CompileOptions& options, const run::CompiledModel& compiled) {
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

Status compile(const CompileOptions& options) {
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
    return misuse("compile", "give the model to compile: a run, a checkpoint, or a file with a model");
  if (!options.model.weights.empty() && !options.onnx.empty())
    return misuse("compile", "CKPT and --onnx both name a model; give one");
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("compile", "--out", options.out, options.json));
  if (!options.onnx.empty() && !run::is_onnx_file(options.onnx)) {
    run::read_onnx(options.onnx);  // throws what is wrong
    return {ErrorCode::kUnsupported, concat("[compile] ", options.onnx,
                                            " doesn't begin like current ONNX models; save it again "
                                            "(onnx.save) with an ir_version of 3 or more")};
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(model.weights, options.out, ignored))
    return misuse("compile", "--out ", options.out,
                  " is the file to compile, which would be overwritten; give another name");
  DLPIPE_RETURN_IF_ERROR(check_is_new("compile", options.out));
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
                                   counted(static_cast<int64_t>(compiled.graph.nodes.size()), "node")));
  if (compiled.model_peak_bytes > 0) {
    print_beside(options.out,
                 concat("peak memory of values, batch of one: ",
                        human_bytes(static_cast<uint64_t>(compiled.graph_peak_bytes)), "; before compiling ",
                        human_bytes(static_cast<uint64_t>(compiled.model_peak_bytes))));
  }
  return {};
}

std::function<Status()> setup_compile(Flags& flags) {
  auto options = std::make_shared<CompileOptions>();
  flags
      .add_option("CKPT", options->model.weights,
                  "What to compile: a run (its best checkpoint), a checkpoint, an ONNX file, a safetensors "
                  "file, or a compiled model")
      .optional();
  flags.add_option("--onnx", options->onnx, "The ONNX file to compile; may also be given as CKPT");
  flags.add_option("--out", options->out, "File to write: model.dlg, or model.onnx for ONNX (opset 17)")
      .writes_file({".dlg", ".onnx"});
  flags.add_option("--model", options->model.model, "Model by name, for a safetensors file");
  flags.add_option(
      "--classes", options->model.classes,
      "Class names for a safetensors file or an ONNX file: a text file with one per line, or a dataset");
  flags.add_option("--val-augment", options->model.val_augment,
                   "How images are prepared; default: as recorded in the checkpoint. A third-party ONNX file "
                   "doesn't record it: without this option, only dlpipe run accepts the compiled model; with "
                   "it, also predict and eval");
  flags.add_option("--input-shape", options->model.input_shapes,
                   "Sizes that an ONNX file leaves open, for each such input: "
                   "NAME=N,3,224,224, where N is a batch of any size");
  flags
      .add_option("--passes", options->passes, "Which optimisations: all, those that keep every bit, or none")
      .choices(names_of(kPassNames));
  flags.add_flag("--list-onnx-ops", options->list_onnx_ops, "Print only the ops that an ONNX file may have");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return compile(*options); };
}

// `dlpipe export-weights CKPT -o FILE` writes the weights of a checkpoint as one safetensors file, for other programs.

struct ExportWeightsOptions {
  std::string checkpoint;
  std::string file;
  bool json = false;
};

Status export_weights(const ExportWeightsOptions& options) {
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("export-weights", "--out", options.file, options.json));
  DLPIPE_RETURN_IF_ERROR(check_is_new("export-weights", options.file));
  std::optional<StopText> kept(std::in_place, concat("; ", options.file, " was not written"));
  DLPIPE_ASSIGN_OR_RETURN(const std::string directory, run::find_checkpoint(options.checkpoint));
  DLPIPE_ASSIGN_OR_RETURN(const run::Checkpoint checkpoint, run::load_checkpoint(directory, false));
  const bool is_averaged = !checkpoint.tensors.ema.empty();
  const std::vector<engine::NamedTensor> tensors = run::published_tensors(
      checkpoint.state.model, is_averaged ? checkpoint.tensors.ema : checkpoint.tensors.model);
  DLPIPE_RETURN_IF_ERROR(
      run::save_tensors(options.file, tensors, run::weights_metadata(checkpoint.state.model)));
  kept.reset();
  const run::TaskState& task = checkpoint.state.model.task;
  std::string targets;
  for (size_t i = 0; i < task.mean.size() && i < checkpoint.state.model.classes.size(); ++i)
    targets +=
        concat(targets.empty() ? "" : ", ", printable(checkpoint.state.model.classes[i]), " = output ", i + 1,
               " * ", shortest_decimal(task.deviation[i]), " + ", shortest_decimal(task.mean[i]));
  if (!targets.empty())
    print_note(concat("[export-weights] the model's outputs are standardised: ", targets,
                      "; the metadata has these numbers"));
  const auto count = static_cast<int64_t>(tensors.size());
  const int64_t step = checkpoint.state.trainer.step;
  if (options.json) {
    print_answer(formats::Json::object({{"file", options.file},
                                        {"checkpoint", directory},
                                        {"step", step},
                                        {"tensors", count},
                                        {"averaged", is_averaged}})
                     .dump());
  } else {
    print_beside(options.file, concat(options.file, ": ", counted(count, "tensor"), " of ",
                                      checkpoint.state.model.model, " at step ", human_count(step),
                                      is_averaged ? ", averaged (--ema)" : "", ", from ", directory));
  }
  return {};
}

std::function<Status()> setup_export_weights(Flags& flags) {
  auto options = std::make_shared<ExportWeightsOptions>();
  flags.add_option("CKPT", options->checkpoint, "Checkpoint, or a run (its best checkpoint)").required();
  flags.add_option("--out", options->file, "Safetensors file to write, with PyTorch's names and shapes")
      .type_name("FILE")
      .writes_file({".safetensors"})
      .required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return export_weights(*options); };
}

// `dlpipe run` runs a compiled model on arrays.

using engine::Tensor;
using formats::Json;

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string dtype = "f32";
  int threads = 0;
  bool json = false;
};

// Converts only without loss: the model gets the same values as one with the file's own type.
Tensor widened(const Tensor& tensor, DType to) {
  const DType from = tensor.dtype();
  const bool is_exact = (to == DType::kF32 && is_low(from)) ||
                        (to == DType::kI64 && (from == DType::kI32 || from == DType::kU8));
  return is_exact ? engine::cast(tensor, to) : tensor;
}

Tensor read_input(const std::string& path) {
  const formats::NpyArray array = value_or_throw(formats::read_npy(path));
  if (array.shape.size() > static_cast<size_t>(Shape::kMaxRank))
    refuse("run", path, " has ", array.shape.size(), " axes; at most ", Shape::kMaxRank, " are supported");
  Tensor tensor = Tensor::empty(Shape(std::span<const int64_t>(array.shape)), array.dtype);
  tensor.copy_from_host(array.bytes.data(), array.bytes.size());
  return tensor;
}

// Converts to a type that a file can hold: NumPy has no bf16.
Tensor as_numpy_has_it(const Tensor& output) {
  const Tensor tensor = output.is_contiguous() ? output : output.contiguous_copy();
  return is_low(tensor.dtype()) ? engine::cast(tensor, DType::kF32) : tensor;
}

Status write_output(const std::string& path, const Tensor& output) {
  return formats::write_npy(path, output.dtype(), output.shape().dims(),
                            {static_cast<const std::byte*>(output.raw()), output.size_bytes()});
}

std::string_view numpy_name(DType dtype) {
  return dtype == DType::kI64 ? "int64" : dtype == DType::kF32 ? "float32" : dtype_name(dtype);
}

/// The file for each of the graph's inputs, in its order. Files are given in this order, or as "NAME=FILE".
std::vector<std::pair<std::string, engine::graph::ValueId>> inputs_in_order(
    const std::string& model, const std::vector<std::string>& given, const engine::graph::Graph& graph) {
  std::map<std::string, std::string> by_name;
  std::vector<std::string> in_order;
  for (const std::string& word : given) {
    const auto named = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](engine::graph::ValueId id) {
      return word.starts_with(concat(graph.value(id).name, "="));
    });
    if (named == graph.inputs.end()) {
      const size_t equals = word.find('=');
      std::error_code ignored;
      if (equals != std::string::npos && !std::filesystem::exists(word, ignored))
        refuse("run", "--input ", word, ": the model has no input '", word.substr(0, equals),
               "'; `dlpipe info ", shell_word(model), "` names them");
      in_order.push_back(word);
      continue;
    }
    const std::string& name = graph.value(*named).name;
    if (!by_name.emplace(name, word.substr(name.size() + 1)).second)
      refuse("run", "--input names '", name, "' twice");
  }
  std::vector<std::pair<std::string, engine::graph::ValueId>> files;
  size_t next = 0;
  for (const engine::graph::ValueId id : graph.inputs) {
    const auto named = by_name.find(graph.value(id).name);
    files.emplace_back(named != by_name.end() ? named->second : in_order.at(next++), id);
  }
  return files;
}

/// Whether `a` and `b` are the same file, which would keep only the last output. A stream keeps all.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (is_stdout(a) || std::filesystem::is_other(a, ignored)) return false;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored);
}

/// kMisuse if an output would overwrite a file in `read`, which the model is read from, or another output.
Status check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& read) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto is_it = [&](const std::string& other) { return is_same_file(other, *output); };
    if (std::any_of(read.begin(), read.end(), is_it))
      return misuse("run", "--out ", *output, " would overwrite a file that is read; give another file");
    if (std::any_of(outputs.begin(), output, is_it))
      return misuse("run", "--out ", *output, " is given for two outputs; give each its own file");
  }
  return {};
}

Status run_model(const RunOptions& options) {
  for (const std::string& output : options.outputs)
    DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("run", "--out", output, options.json));
  if (std::find(options.inputs.begin(), options.inputs.end(), "-") != options.inputs.end()) {
    return misuse("run",
                  "--input -: arrays aren't read from standard input; give the path of a .npy file "
                  "(./- for a file called -)");
  }
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  const DType dtype = value_or_throw(run::compiled_dtype(options.dtype));
  throw_if_error(run::refuse_other_kind("run", options.model, run::Wanted::kCompiledModel));
  const engine::graph::Runner runner(
      engine::graph::inference_form(value_or_throw(engine::graph::read_graph(options.model))));
  const engine::graph::Graph& graph = runner.graph();
  if (options.inputs.size() != graph.inputs.size() || options.outputs.size() != graph.outputs.size()) {
    return misuse("run", options.model, " has ", counted(static_cast<int64_t>(graph.inputs.size()), "input"),
                  " and ", counted(static_cast<int64_t>(graph.outputs.size()), "output"),
                  "; give as many --input and --output");
  }
  const auto files = inputs_in_order(options.model, options.inputs, graph);
  std::vector<std::string> read = {options.model};
  for (const auto& [path, id] : files) read.push_back(path);
  DLPIPE_RETURN_IF_ERROR(check_outputs(options.outputs, read));
  std::vector<Tensor> inputs;
  for (const auto& [path, id] : files) {
    const engine::graph::Value& value = graph.value(id);
    inputs.push_back(widened(read_input(path), value.dtype));
    if (inputs.back().dtype() != value.dtype)
      return misuse("run", path, " holds ", dtype_name(inputs.back().dtype()), ", but '", value.name,
                    "' needs ", dtype_name(value.dtype), "; save x.astype('", numpy_name(value.dtype), "')");
  }
  std::vector<Tensor> outputs;
  {
    const StopText kept("; no output was written");
    const engine::UseAutocast autocast(dtype);
    outputs = runner.run(inputs);
  }
  for (Tensor& output : outputs) output = as_numpy_has_it(output);
  Json answer = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    DLPIPE_RETURN_IF_ERROR(write_output(options.outputs[i], outputs[i]));
    const engine::graph::Value& value = graph.value(graph.outputs[i]);
    if (options.json) {
      answer.push_back(Json::object({{"name", value.name},
                                     {"file", options.outputs[i]},
                                     {"shape", outputs[i].shape().to_string()},
                                     {"dtype", dtype_name(outputs[i].dtype())}}));
    } else {
      print_beside(options.outputs[i],
                   concat(printable(options.outputs[i]), ": ", value.name, " ",
                          dtype_name(outputs[i].dtype()), " ", outputs[i].shape().to_string()));
    }
  }
  if (options.json) print_answer(Json::object({{"outputs", std::move(answer)}}).dump());
  return {};
}

std::function<Status()> setup_run(Flags& flags) {
  auto options = std::make_shared<RunOptions>();
  flags.add_option("MODEL", options->model, "Compiled model (.dlg), made by dlpipe compile").required();
  flags
      .add_option("--input", options->inputs,
                  "NumPy array (.npy), one for each input in their order, or NAME=FILE, in the shape that "
                  "`dlpipe info MODEL` shows. "
                  "Images are [N,H,W,C]; for an ONNX file that was compiled without --val-augment they have "
                  "the file's "
                  "order, mostly [N,C,H,W]")
      .required();
  flags.add_option("--out", options->outputs, "Array (.npy) for each output; an existing file is replaced")
      .writes_file({".npy"})
      .required();
  flags.add_option("--dtype", options->dtype, "f32 or bf16");
  flags.add_option("--threads", options->threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run_model(*options); };
}

}  // namespace

extern const CommandRecord compile_command;
const CommandRecord compile_command = {
    "compile", "Compile a trained model into one file, for predict, eval and run", setup_compile};

extern const CommandRecord export_weights_command;
const CommandRecord export_weights_command = {
    "export-weights", "Write a checkpoint's weights as one safetensors file for other programs",
    setup_export_weights};

extern const CommandRecord run_command;
const CommandRecord run_command = {"run", "Run a compiled model on arrays", setup_run};

}  // namespace dlpipe::cli
