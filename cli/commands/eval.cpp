// `dlpipe eval`: loss and metrics of a trained model on a dataset.

#include <cmath>
#include <optional>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/model_flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/progress_line.h"
#include "dlpipe/cli/report_view.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/use/answers_json.h"
#include "dlpipe/run/use/evaluate_dataset.h"

namespace dlpipe::cli {

namespace {

struct Options {
  run::EvaluateOptions evaluate;
  std::string predictions;  // a file, or "-": stdout
  bool json = false;
};

/// Whoever read the predictions on stdout has gone: the rest is work for nothing.
struct NobodyReads {};

// JSON lines, in a file that appears when it is whole, or as they come into stdout or a pipe.
class Predictions {
 public:
  explicit Predictions(const std::string& path) : path_(path) {
    if (!is_stdout(path)) file_.emplace(value_or_throw(formats::AtomicFile::create(path)));
  }

  void write(const run::SampleAnswer& answer, const std::vector<std::string>& classes) {
    const std::string line = printable_lines(run::to_json(answer, classes).dump()) + "\n";
    if (file_) return throw_if_error(file_->append(line));
    if (!write_stdout(line)) throw NobodyReads();
  }

  void close() {
    if (file_) throw_if_error(file_->commit());
  }

  /// For a person, of an evaluation that was stopped.
  std::string when_stopped() const {
    return file_ && !file_->is_stream() ? concat("; ", path_, " was not written") : std::string();
  }

 private:
  std::string path_;
  std::optional<formats::AtomicFile> file_;
};

std::string text(const run::Evaluation& evaluation) {
  const run::EvalReport& report = evaluation.report;
  const run::LoadedModel& model = evaluation.model;
  std::vector<std::vector<std::string>> rows = {{"metric", "value"},
                                                {engine::kLossMetric, fixed(report.loss, 4)}};
  for (const auto& [name, value] : report.metrics) {
    if (name != engine::kLossMetric) rows.push_back({name, metric_text(name, value)});
  }
  std::string all =
      concat(printable(model.path), " (", model.state.model,
             model.step < 0 ? std::string() : concat(", step ", model.step), ") on ",
             printable(evaluation.data), "\n", format_table(rows), human_count(report.samples), " samples",
             evaluation.subset.empty() ? "" : concat(" (", evaluation.subset, ")"), ", ",
             fixed(static_cast<double>(report.samples) / report.seconds, 1), " samples/s\n");
  if (report.dropped > 0) all += concat(report.dropped, " records could not be used and don't count\n");
  if (evaluation.classes) all += "\n" + report_text(*evaluation.classes, model.state.classes);
  return all;
}

Status evaluate(Options options) {
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("eval", "--predictions", options.predictions, options.json));
  options.evaluate.stop = catch_stop_signals();
  ProgressLine line;
  options.evaluate.on_note = [](const std::string& note) { print_note(printable(note)); };
  options.evaluate.on_progress = [&](int64_t done, int64_t total) { line.show("eval", {done, total}); };
  std::optional<Predictions> predictions;
  if (!options.predictions.empty()) {
    predictions.emplace(options.predictions);
    options.evaluate.on_sample = [&](const run::SampleAnswer& answer,
                                     const std::vector<std::string>& classes) {
      predictions->write(answer, classes);
    };
  }
  try {
    const run::Evaluation evaluation = run::evaluate_dataset(options.evaluate);
    line.end();
    if (predictions) predictions->close();
    if (evaluation.report.samples > 0 && !std::isfinite(evaluation.report.loss))
      print_warning("dlpipe: the loss is not finite: the model answers NaN or infinity");
    if (options.json) {
      print_answer(run::to_json(evaluation).dump());
    } else {
      print_beside(options.predictions, text(evaluation));
    }
  } catch (const NobodyReads&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || !predictions) throw;
    return {error.code(), concat(error.status().message(), predictions->when_stopped())};
  }
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  add_model_flags(flags, options->evaluate.model);
  flags.add_option("DATA", options->evaluate.data, "Dataset, or a folder of splits (its val)").required();
  flags.add_option("--split", options->evaluate.split, "Which split of a folder of splits (default val)")
      .type_name("NAME");
  flags.add_option("--batch", options->evaluate.batch, "Images per batch").range(1, 1'000'000);
  flags.add_option("--threads", options->evaluate.threads, "Threads; 0: what the process may use")
      .range(0, kMostThreads);
  flags.add_option("--device", options->evaluate.device, "cpu, cuda");
  flags.add_flag("--tf32", options->evaluate.tf32, "On CUDA: f32 products and convolutions may take TF32");
  flags.add_option("--limit", options->evaluate.limit,
                   "Only N images, a fixed subset from the whole dataset; -1: all");
  flags.add_flag("--report", options->evaluate.report,
                 "Also precision, recall and F1 of each class, and the confusion matrix");
  flags
      .add_option("--predictions", options->predictions,
                  "Write a JSON line for each sample to this file, which appears when all are in it")
      .type_name("FILE")
      .writes_file({".jsonl", ".json", ".ndjson", ".txt"});
  flags.add_option("--top", options->evaluate.top, "Classes in each of those lines").range(1, 1'000'000);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return evaluate(*options); };
}

}  // namespace

extern const CommandRecord eval_command;
const CommandRecord eval_command = {"eval", "Judge a trained model on a dataset", setup};

}  // namespace dlpipe::cli
