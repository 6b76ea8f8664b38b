// `dlpipe export-weights CKPT -o FILE`: the weights of a checkpoint as one safetensors file, for other programs.
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/record/tensor_file.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string checkpoint;
  std::string file;
  bool json = false;
};

Status run(const Options& options) {
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("export-weights", "--out", options.file, options.json));
  std::error_code ignored;
  if (std::filesystem::exists(options.file, ignored) && !formats::is_stream(options.file))
    return misuse("export-weights", options.file, " exists already; remove it or choose another");
  std::optional<StopText> kept(std::in_place, concat("; ", options.file, " was not written"));
  DLPIPE_ASSIGN_OR_RETURN(const std::string directory, run::find_checkpoint(options.checkpoint));
  DLPIPE_ASSIGN_OR_RETURN(const run::Checkpoint checkpoint, run::load_checkpoint(directory, false));
  const bool is_averaged = !checkpoint.tensors.ema.empty();
  const auto& tensors = is_averaged ? checkpoint.tensors.ema : checkpoint.tensors.model;
  DLPIPE_RETURN_IF_ERROR(
      run::save_tensors(options.file, tensors, run::weights_metadata(checkpoint.state.model)));
  kept.reset();
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
    print_beside(options.file,
                 concat(options.file, ": ", count, " tensors of ", checkpoint.state.model.model, " at step ",
                        human_count(step), is_averaged ? ", averaged (--ema)" : "", ", from ", directory));
  }
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("CKPT", options->checkpoint, "Checkpoint, or a run (its best checkpoint)").required();
  flags.add_option("--out", options->file, "Safetensors file to write, with PyTorch's names and shapes")
      .type_name("FILE")
      .writes_file({".safetensors"})
      .required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord export_weights_command;
const CommandRecord export_weights_command = {
    "export-weights", "Write a checkpoint's weights as one safetensors file for other programs", setup};

}  // namespace dlpipe::cli
