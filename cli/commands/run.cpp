// `dlpipe run`: a compiled model on arrays.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/io/formats/npy.h"
#include "dlpipe/run/config/precision.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::cli {

namespace {

using engine::Tensor;
using formats::Json;

struct Options {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string dtype = "f32";
  int threads = 0;
  bool json = false;
};

// Without a loss: what a model of the file's own type would have taken.
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

// What a file can hold of it: NumPy has no bf16.
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

/// The file of each of the graph's inputs, in its order: as given, or by "NAME=FILE".
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

/// Whether `a` and `b` lead to one file, of which only what is written last stays. A stream takes one behind the other.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (is_stdout(a) || std::filesystem::is_other(a, ignored)) return false;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored);
}

/// kMisuse where an output would be written over what the model is read from, `read`, or over another output.
Status check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& read) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto is_it = [&](const std::string& other) { return is_same_file(other, *output); };
    if (std::any_of(read.begin(), read.end(), is_it))
      return misuse("run", "--out ", *output, " would be written over what is read; give another file");
    if (std::any_of(outputs.begin(), output, is_it))
      return misuse("run", "--out ", *output, " is the file of two outputs; give each its own");
  }
  return {};
}

Status run(const Options& options) {
  for (const std::string& output : options.outputs)
    DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("run", "--out", output, options.json));
  if (std::find(options.inputs.begin(), options.inputs.end(), "-") != options.inputs.end()) {
    return misuse("run",
                  "--input -: arrays aren't read from standard input; give the path of a .npy file "
                  "(./- where it is called so)");
  }
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  const DType dtype = value_or_throw(run::compiled_dtype(options.dtype));
  throw_if_error(run::refuse_other_kind("run", options.model, run::Wanted::kCompiledModel));
  const engine::graph::Runner runner(value_or_throw(engine::graph::read_graph(options.model)));
  const engine::graph::Graph& graph = runner.graph();
  if (options.inputs.size() != graph.inputs.size() || options.outputs.size() != graph.outputs.size()) {
    return misuse("run", options.model, " has ", graph.inputs.size(), " inputs and ", graph.outputs.size(),
                  " outputs; give as many --input and --output");
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
      return misuse("run", path, " holds ", dtype_name(inputs.back().dtype()), ", and '", value.name,
                    "' takes ", dtype_name(value.dtype), "; save x.astype('", numpy_name(value.dtype), "')");
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

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("MODEL", options->model, "Compiled model (.dlg), made by dlpipe compile").required();
  flags
      .add_option(
          "--input", options->inputs,
          "Array of NumPy's (.npy), one for each input in their order, or NAME=FILE, in the shape that "
          "`dlpipe info MODEL` shows. "
          "Images are [N,H,W,C]; of an ONNX file that was compiled without --val-augment they keep its "
          "order, mostly [N,C,H,W]")
      .required();
  flags.add_option("--out", options->outputs, "Array to write (.npy), one for each output")
      .writes_file({".npy"})
      .required();
  flags.add_option("--dtype", options->dtype, "f32 or bf16");
  flags.add_option("--threads", options->threads, "Threads; 0: what the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord run_command;
const CommandRecord run_command = {"run", "Run a compiled model on arrays", setup};

}  // namespace dlpipe::cli
