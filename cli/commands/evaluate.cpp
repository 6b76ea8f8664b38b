// Commands that use a trained model: `dlpipe eval` (loss and metrics on a dataset), `dlpipe predict` (classes of image files) and
// `dlpipe generate` (text).
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/train_view.h"
#include "dlpipe/metrics.h"
#include "dlpipe/predictor.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/config/values.h"
#include "run/use/image_list.h"
#include "run/use/loaded_model.h"
#include "run/use/predict.h"

namespace dlpipe::cli {

namespace {

/// --ckpt (or --init, train's name for weights), --model, --classes, --val-augment, --tta, --dtype: which trained model eval and predict
/// use. `model` must live until the command has run.
void add_model_flags(Flags& flags, run::ModelOptions& model) {
  flags
      .add_option("--ckpt", model.weights,
                  "The trained model: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX "
                  "file, or a safetensors file with PyTorch's names")
      .type_name("PATH")
      .required()
      .not_empty();
  flags.add_option("--model", model.model, "The model of a bare safetensors file").type_name("NAME");
  flags
      .add_option("--classes", model.classes,
                  "Class names of a bare safetensors file or an ONNX file: a text file with one per line, or "
                  "a dataset")
      .type_name("PATH");
  flags
      .add_option(
          "--val-augment", model.val_augment,
          "How images are prepared. Default: as recorded in the checkpoint; for torchvision's weights "
          "\"resize(256) center_crop(224)\". If the chain has no normalize, that of the weights is added")
      .type_name("CHAIN");
  flags
      .add_option("--tta", model.tta,
                  "Average over views of an image; default: as recorded in the checkpoint")
      .completes(names_of(run::kViewNames))
      .type_name("VIEWS");
  flags.add_option("--dtype", model.dtype, "f32, bf16, f16 (on GPUs); default: as recorded in the checkpoint")
      .type_name("DTYPE");
}

using Rows = std::vector<std::vector<std::string>>;

std::string class_table(const run::ClassReport& report, std::span<const std::string> names) {
  Rows rows = {{"class", "samples", "predicted", "precision", "recall (top1)", "F1"}};
  const auto add = [&](const std::string& name, const std::string& samples, const std::string& predicted,
                       double precision, double recall, double f1) {
    rows.push_back({name, samples, predicted, fixed(precision, 4), fixed(recall, 4), fixed(f1, 4)});
  };
  const std::vector<run::ClassScore> scores = report.scores();
  for (size_t c = 0; c < scores.size(); ++c) {
    const run::ClassScore& score = scores[c];
    add(printable(names[c]), human_count(score.support), human_count(score.predicted), score.precision(),
        score.recall(), score.f1());
  }
  const auto has_samples = [](const run::ClassScore& score) { return score.support > 0; };
  const auto seen = static_cast<size_t>(std::count_if(scores.begin(), scores.end(), has_samples));
  const auto macro = report.macro_mean(), weighted = report.weighted_mean();
  add(seen == scores.size()
          ? "mean of classes"
          : concat("mean of the ", counted(static_cast<int64_t>(seen), "class", "classes"), " with samples"),
      "", "", macro.precision, macro.recall, macro.f1);
  add("mean of samples", "", "", weighted.precision, weighted.recall, weighted.f1);
  return format_table(rows);
}

std::string matrix(const run::ClassReport& report, std::span<const std::string> names) {
  Rows rows = {{"is \\ predicted"}};
  for (const std::string& name : names) rows[0].push_back(printable(name));
  for (int64_t label = 0; label < report.classes(); ++label) {
    rows.push_back({printable(names[static_cast<size_t>(label)])});
    for (int64_t c = 0; c < report.classes(); ++c)
      rows.back().push_back(std::to_string(report.count(label, c)));
  }
  return format_table(rows);
}

std::string most_frequent(const run::ClassReport& report, std::span<const std::string> names) {
  constexpr size_t kShown = 20;
  struct Confusion {
    int64_t count, label, predicted;
  };
  std::vector<Confusion> all;
  for (int64_t label = 0; label < report.classes(); ++label) {
    for (int64_t c = 0; c < report.classes(); ++c) {
      if (label != c && report.count(label, c) > 0) all.push_back({report.count(label, c), label, c});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  Rows rows = {{"samples", "is", "predicted"}};
  for (size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    rows.push_back({human_count(all[i].count), printable(names[static_cast<size_t>(all[i].label)]),
                    printable(names[static_cast<size_t>(all[i].predicted)])});
  }
  return concat("the most frequent of ", counted(static_cast<int64_t>(all.size()), "confusion"),
                "; --json has the whole matrix\n", format_table(rows));
}

/// A table of classes, means, and the confusion matrix; for many classes only the most frequent confusions.
std::string report_text(const run::ClassReport& report, std::span<const std::string> names) {
  constexpr int64_t kWholeMatrix = 12;  // a larger matrix is hard to read
  std::string text = class_table(report, names) + "\n";
  const std::string whole = report.classes() <= kWholeMatrix ? matrix(report, names) : std::string();
  const bool is_shown = !whole.empty() && fits_stdout(split(whole, '\n').front());
  text += is_shown ? whole : most_frequent(report, names);
  if (report.undecided() > 0) {
    text += concat(counted(report.undecided(), "sample has no finite logits, so no class is predicted for it",
                           "samples have no finite logits, so no class is predicted for them"),
                   "\n");
  }
  return text;
}

/// Figures of each label or target.
std::string figures_table(const run::Evaluation& evaluation) {
  const std::string& task = evaluation.model.state.task.name;
  Rows rows = {{task == "regress" ? "target" : task == "multilabel" ? "label" : "class"}};
  rows[0].insert(rows[0].end(), evaluation.columns.begin(), evaluation.columns.end());
  for (const auto& [name, figures] : evaluation.figures) {
    rows.push_back({printable(name)});
    for (size_t i = 0; i < figures.size(); ++i) {
      const std::string& column = evaluation.columns[i];
      const bool is_count =
          column == "samples" || column == "objects" || column == "boxes" || column == "pixels";
      rows.back().push_back(std::isnan(figures[i]) ? "-"
                            : is_count             ? human_count(static_cast<int64_t>(figures[i]))
                                                   : fixed(figures[i], 4));
    }
  }
  return format_table(rows);
}

// eval

struct EvalOptions {
  run::EvaluateOptions evaluate;
  std::string predictions;  // a file, or "-": stdout
  bool json = false;
};

/// Thrown if the reader of the predictions on stdout has closed the pipe, so that the rest isn't computed.
struct NobodyReads {};

// JSON lines, in a file that appears once it is complete, or line by line on stdout or into a pipe.
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

  /// The end of the message about a stopped evaluation.
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
             printable(evaluation.data), "\n", format_table(rows), counted(report.samples, "sample"),
             evaluation.subset.empty() ? "" : concat(" (", evaluation.subset, ")"), ", ",
             fixed(static_cast<double>(report.samples) / report.seconds, 1), " samples/s\n");
  if (report.dropped > 0)
    all += concat(
        counted(report.dropped, "record could not be used and was", "records could not be used and were"),
        " not counted\n");
  if (evaluation.classes) all += "\n" + report_text(*evaluation.classes, model.state.classes);
  if (!evaluation.columns.empty()) all += "\n" + figures_table(evaluation);
  return all;
}

Status evaluate(EvalOptions options) {
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("eval", "--predictions", options.predictions, options.json));
  DLPIPE_RETURN_IF_ERROR(check_is_new("eval", options.predictions));
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
  options.evaluate.stop = catch_stop_signals();  // a pipe without a reader has been waited for
  try {
    const run::Evaluation evaluation = run::evaluate_dataset(options.evaluate);
    line.end();
    if (predictions) predictions->close();
    if (options.json) {
      print_answer(run::to_json(evaluation).dump());
    } else {
      print_beside(options.predictions, text(evaluation));
    }
    if (evaluation.report.samples > 0 && !std::isfinite(evaluation.report.loss))
      return {ErrorCode::kNonfinite, "[eval] the loss is not finite: the model returns NaN or infinity"};
  } catch (const NobodyReads&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || !predictions) throw;
    return {error.code(), concat(error.status().message(), predictions->when_stopped())};
  }
  return {};
}

std::function<Status()> setup_eval(Flags& flags) {
  auto options = std::make_shared<EvalOptions>();
  add_model_flags(flags, options->evaluate.model);
  flags.add_option("DATA", options->evaluate.data, "Dataset, or a folder of splits (uses val)").required();
  flags.add_option("--split", options->evaluate.split, "Split to use of a folder of splits (default val)")
      .type_name("NAME");
  flags.add_option("--fold", options->evaluate.fold,
                   "Only the samples of this fold, as train --fold validates on; default: all");
  flags.add_option("--batch", options->evaluate.batch, "Images per batch").range(1, 1'000'000);
  flags.add_option("--threads", options->evaluate.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_option("--device", options->evaluate.device, "cpu, cuda");
  flags.add_flag("--tf32", options->evaluate.tf32, "On CUDA: f32 products and convolutions may use TF32");
  flags.add_option("--limit", options->evaluate.limit,
                   "Only N images, a fixed subset of the whole dataset; -1: all");
  flags.add_flag("--report", options->evaluate.report,
                 "Also precision, recall and F1 of each class, and the confusion matrix");
  flags.add_flag(
      "--resized-masks", options->evaluate.resized_masks,
      "For segmentation: metrics at the size that the model sees; default: at the masks' own size");
  flags
      .add_option("--predictions", options->predictions,
                  "Write a JSON line for each sample to this file, which appears once it is complete")
      .type_name("FILE")
      .writes_file({".jsonl", ".json", ".ndjson", ".txt"});
  flags.add_option("--top", options->evaluate.top, "Classes in each of those lines").range(1, 1'000'000);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return evaluate(*options); };
}

// predict: prints a line for each file as soon as its result is known.

struct PredictOptions {
  run::PredictOptions predict;
  std::string threshold;
  std::vector<std::string> paths;
  std::string draw;
  bool json = false;
};

// The path, then class and probability of each of the top classes (labels above --threshold, targets and values, boxes with their
// sides), separated by tabs, which printed names don't contain.
std::string text_line(const run::Prediction& prediction) {
  std::string line = printable(prediction.path);
  for (const run::PredictedBox& box : prediction.boxes) {
    line += concat("\t", printable(box.name), "\t", fixed(box.score, 4));
    for (const double side : box.box) line += concat("\t", fixed(side, 1));
  }
  const auto& shown = prediction.task == "multilabel" ? prediction.labels
                      : prediction.task == "classify" ? prediction.top
                                                      : prediction.values;
  for (const auto& [name, number] : shown) line += concat("\t", printable(name), "\t", fixed(number, 4));
  return line;
}

/// Prints predictions as they arrive, and counts them.
class Answers {
 public:
  /// `total`: how many there will be, "12"; "" while it is unknown.
  Answers(const PredictOptions& options, std::string total) : json_(options.json), total_(std::move(total)) {
    if (!options.draw.empty()) drawer_.emplace(options.draw);
  }

  /// Returns false once the reader has closed the pipe.
  bool print(const run::Prediction& prediction) {
    bool is_read = true;
    if (!prediction.error.empty()) {
      ++unusable_;
      print_warning(concat("dlpipe: ", printable(prediction.path), ": ", printable(prediction.error)));
    }
    const std::string drawing = drawer_ ? value_or_throw(drawer_->draw(prediction)) : std::string();
    if (prediction.error.empty() || json_)
      is_read = print_answer(json_ ? run::to_json(prediction, drawing).dump() : text_line(prediction));
    kept_.set(concat(" after ", human_count(++done_), total_.empty() ? "" : " of ", total_,
                     " files, which are printed completely"));
    return is_read;
  }

  Status status() const {
    if (unusable_ == 0) return {};
    return {ErrorCode::kCorrupt,
            concat("[predict] ", unusable_, " of ", total_.empty() ? human_count(done_) : total_,
                   " files or folders could not be used; they are named above")};
  }

 private:
  const bool json_;
  const std::string total_;
  std::optional<run::PredictionDrawer> drawer_;
  int64_t unusable_ = 0, done_ = 0;
  StopText kept_{"; no file was processed yet"};
};

void tell_left_aside(const std::string& names) {
  if (!names.empty()) print_warning(concat("[predict] ignored because they are not images: ", names));
}

void tell_notes(const run::Predictor& predictor) {
  for (const std::string& note : predictor.model().notes) print_note(printable(note));
}

void check_drawing(const PredictOptions& options, const run::Predictor& predictor) {
  const std::string& task = predictor.model().state.task.name;
  if (!options.draw.empty() && task != "segment" && task != "detect")
    refuse("predict", "--draw draws masks and boxes, and this model's task is ", task, "; leave it out");
}

/// Prints as soon as a batch is full or standard input pauses, as the writer may wait for the results.
Status predict_stream(const PredictOptions& options) {
  run::ImageStream images = value_or_throw(run::ImageStream::open(options.paths, STDIN_FILENO));
  run::Predictor predictor(options.predict);
  tell_notes(predictor);
  check_drawing(options, predictor);
  Answers answers(options, "");
  bool is_read = true;
  while (is_read) {
    const auto files = images.next(static_cast<size_t>(options.predict.batch));
    tell_left_aside(images.take_left_aside());
    DLPIPE_RETURN_IF_ERROR(files.status());
    if (files->empty()) break;
    is_read = predictor.predict_piece(
        *files, [&](const run::Prediction& prediction) { return answers.print(prediction); });
  }
  return answers.status();
}

Status predict(const PredictOptions& options) {
  if (run::names_standard_input(options.paths)) return predict_stream(options);
  const run::ImageList list = value_or_throw(run::list_images(options.paths));
  tell_left_aside(list.left_aside);
  run::Predictor predictor(options.predict);
  tell_notes(predictor);
  check_drawing(options, predictor);
  Answers answers(options, human_count(static_cast<int64_t>(list.files.size())));
  predictor.predict(list.files, [&](const run::Prediction& prediction) { return answers.print(prediction); });
  return answers.status();
}

std::function<Status()> setup_predict(Flags& flags) {
  auto options = std::make_shared<PredictOptions>();
  add_model_flags(flags, options->predict.model);
  flags
      .add_option(
          "PATH", options->paths,
          "Image files, or folders of them; '-': standard input, one image or a path per line; results "
          "are printed as the input arrives")
      .required();
  flags.add_option("--top", options->predict.top, "Classes per file").range(1, 1'000'000);
  flags
      .add_option("--draw", options->draw,
                  "For segmentation and detection: write NAME.png, the image with its masks or boxes, to "
                  "this folder; "
                  "segmentation also writes NAME.mask.png, the class numbers")
      .type_name("FOLDER");
  flags
      .add_option("--threshold", options->threshold,
                  "For labels and boxes: print those with at least this probability (default 0.5); or "
                  "NAME=T,NAME=T; or a file of eval --report --json, with the best one of each label")
      .type_name("T")
      .not_empty();
  flags.add_option("--batch", options->predict.batch, "Images per batch").range(1, 1'000'000);
  flags.add_option("--device", options->predict.device, "cpu, cuda");
  flags.add_option("--threads", options->predict.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_option("--max-pixels", options->predict.max_pixels, "Refuse to decode images with more pixels");
  flags.add_flag("--json", options->json, "Print a JSON line for each file");
  flags.footer(
      "A file that is missing, can't be read or decoded, or for which the model returns NaN or infinity, "
      "is named on stderr "
      "(with --json its line has an \"error\"), and so is a folder that can't be listed. predict continues "
      "with "
      "the others. The exit code is then 1.");
  return [options]() -> Status {
    if (!options->threshold.empty())
      DLPIPE_RETURN_IF_ERROR(run::read_thresholds(options->threshold, options->predict));
    return predict(*options);
  };
}

// generate: prints text on stdout as it is generated.

struct GenerateOptions {
  run::GenerateOptions generate;
  bool json = false;
};

// The whole prompt comes first, then each token.
Status generate_json(const run::GenerateOptions& options) {
  std::string text;
  int64_t pieces = 0;
  run::generate(options, [&](const std::string& piece) {
    if (pieces++ > 0) text += piece;
    return true;
  });
  print_answer(formats::Json::object({{"checkpoint", options.checkpoint},
                                      {"prompt", options.prompt},
                                      {"text", text},
                                      {"tokens", pieces - 1}})
                   .dump());
  return {};
}

Status generate(const GenerateOptions& given) {
  const run::GenerateOptions& options = given.generate;
  if (given.json) return generate_json(options);
  StdoutText text;  // until the reader closes the pipe: `dlpipe generate ... | head`
  run::generate(options, [&](const std::string& piece) { return text.write(piece); });
  text.finish();
  return {};
}

std::function<Status()> setup_generate(Flags& flags) {
  auto all = std::make_shared<GenerateOptions>();
  run::GenerateOptions* const options = &all->generate;
  flags.add_option("CKPT", options->checkpoint, "Checkpoint, or a run (its best checkpoint)").required();
  flags.add_option("--prompt", options->prompt, "Text to continue").type_name("TEXT");
  flags.add_option("--tokens", options->tokens, "Characters to add").range(0, 100'000'000);
  flags
      .add_option("--temperature", options->temperature,
                  "Divides the logits: below 1 the text is more likely, above 1 more varied; 0: always the "
                  "most likely character")
      .range(0.0, 1e6);
  flags.add_option("--top-k", options->top_k, "Draw from the N most likely characters; 0: from all")
      .range(0, 1'000'000);
  flags.add_option("--seed", options->seed, "Seed of the random draws");
  flags.add_option("--threads", options->threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", all->json, "Print one JSON line at the end");
  return [all] { return generate(*all); };
}

}  // namespace

extern const CommandRecord eval_command;
const CommandRecord eval_command = {"eval", "Evaluate a trained model on a dataset", setup_eval};

extern const CommandRecord predict_command;
const CommandRecord predict_command = {"predict", "Classify image files with a trained model", setup_predict};

extern const CommandRecord generate_command;
const CommandRecord generate_command = {"generate", "Generate text with a checkpoint of a character model",
                                        setup_generate};

}  // namespace dlpipe::cli
