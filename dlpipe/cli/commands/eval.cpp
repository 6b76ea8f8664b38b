// `dlpipe eval`: loss and metrics of a checkpoint on a dataset.

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/loaded_model.h"

namespace dlpipe::cli {

namespace {

struct Options {
  run::EvaluateOptions evaluate;
  bool json = false;
};

Status evaluate(Options options) {
  options.evaluate.stop = catch_stop_signals();
  const run::Evaluation evaluation = run::evaluate_checkpoint(options.evaluate);
  const run::EvalReport& report = evaluation.report;
  if (options.json) {
    using formats::Json;
    Json json = Json::object({{"checkpoint", evaluation.model.directory},
                              {"data", evaluation.data},
                              {"step", evaluation.model.step},
                              {"samples", report.samples},
                              {"dropped", report.dropped},
                              {"loss", report.loss}});
    for (const auto& [name, value] : report.metrics) json.set(name, value);
    json.set("samples_per_s", static_cast<double>(report.samples) / report.seconds);
    print_answer(json.dump());
    return {};
  }
  std::vector<std::vector<std::string>> rows = {{"metric", "value"}, {"loss", fixed(report.loss, 4)}};
  for (const auto& [name, value] : report.metrics) rows.push_back({name, fixed(100 * value, 2) + " %"});
  print_answer(concat(evaluation.model.directory, " (", evaluation.model.state.model, ", step ",
                      evaluation.model.step, ") on ", evaluation.data, "\n", format_table(rows),
                      human_count(report.samples), " samples, ",
                      fixed(static_cast<double>(report.samples) / report.seconds, 1), " samples/s"));
  if (report.dropped > 0) print_answer(concat(report.dropped, " records could not be used and don't count"));
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("--ckpt", options->evaluate.checkpoint, "Checkpoint, or run directory (its best)")
      .required();
  flags.add_option("DATA", options->evaluate.data, "Dataset, or a split (its val)").required();
  flags.add_option("--batch", options->evaluate.batch, "Images a batch").range(1, 1'000'000);
  flags.add_option("--threads", options->evaluate.threads, "Threads; 0: what the process may use")
      .range(0, 4096);
  flags.add_option("--device", options->evaluate.device, "cpu, cuda");
  flags.add_flag("--tf32", options->evaluate.tf32, "On CUDA: f32 products and convolutions may take TF32");
  flags.add_option("--limit", options->evaluate.limit,
                   "Only N images, a fixed subset from the whole dataset; -1: all");
  flags.add_flag("--json", options->json, "Print one JSON line on stdout");
  return [options] { return evaluate(*options); };
}

}  // namespace

extern const CommandRecord eval_command;
const CommandRecord eval_command = {"eval", "Judge a checkpoint on a dataset", setup};

}  // namespace dlpipe::cli
