#include "dlpipe/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "dlpipe/log.h"
#include "dlpipe/ops.h"
#include "engine/core/constant_cache.h"
#include "engine/core/device_code.h"
#include "engine/core/parallel.h"
#include "io/data/codec/mask.h"
#include "io/data/sample.h"
#include "run/config/values.h"
#include "run/input/dataset.h"
#include "run/record/run_directory.h"
#include "run/task/task.h"
#include "run/use/evaluate.h"
#include "run/use/loaded_model.h"
#include "run/use/predict.h"
#include "run/use/seen_map.h"

namespace dlpipe::run {

using formats::Json;

static double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

double ClassScore::precision() const {
  return ratio(right, predicted);
}
double ClassScore::recall() const {
  return ratio(right, support);
}
double ClassScore::f1() const {
  return ratio(2 * right, support + predicted);
}

Result<ClassReport> ClassReport::make(int64_t classes) {
  constexpr int64_t kMost = 4096;  // 128 MiB of counts
  if (classes > kMost) {
    return misuse("eval", "--report supports up to ", human_count(kMost), " classes, but there are ",
                  human_count(classes), "; compute it from what --predictions writes");
  }
  return ClassReport(classes);
}

ClassReport::ClassReport(int64_t classes)
    : classes_(classes),
      counts_(static_cast<size_t>(classes * classes)),
      support_(static_cast<size_t>(classes)) {}

void ClassReport::add(int64_t label, std::span<const float> logits) {
  ++support_.at(static_cast<size_t>(label));
  const size_t first = top_classes(logits, 1).at(0);
  if (std::isnan(logits[first])) {
    ++undecided_;
    return;
  }
  ++counts_.at(static_cast<size_t>(label * classes_) + first);
}

std::vector<ClassScore> ClassReport::scores() const {
  std::vector<ClassScore> scores(static_cast<size_t>(classes_));
  for (int64_t label = 0; label < classes_; ++label) {
    ClassScore& own = scores[static_cast<size_t>(label)];
    own.support = support_[static_cast<size_t>(label)];
    own.right = count(label, label);
    for (int64_t c = 0; c < classes_; ++c) scores[static_cast<size_t>(c)].predicted += count(label, c);
  }
  return scores;
}

ClassReport::Means ClassReport::mean(bool weighted) const {
  Means sums;
  double total = 0;
  for (const ClassScore& score : scores()) {
    const double weight = score.support == 0 ? 0.0 : weighted ? static_cast<double>(score.support) : 1.0;
    sums.precision += weight * score.precision();
    sums.recall += weight * score.recall();
    sums.f1 += weight * score.f1();
    total += weight;
  }
  if (total == 0) return {};
  return {sums.precision / total, sums.recall / total, sums.f1 / total};
}

ClassReport::Means ClassReport::macro_mean() const {
  return mean(false);
}
ClassReport::Means ClassReport::weighted_mean() const {
  return mean(true);
}

Json to_json(const ClassReport& report, std::span<const std::string> names) {
  const auto means_json = [](const ClassReport::Means& means) {
    return Json::object({{"precision", means.precision}, {"recall", means.recall}, {"f1", means.f1}});
  };
  Json classes = Json::array();
  Json matrix = Json::array();
  const std::vector<ClassScore> all = report.scores();
  for (int64_t label = 0; label < report.classes(); ++label) {
    const ClassScore& score = all[static_cast<size_t>(label)];
    classes.push_back(Json::object({{"class", names[static_cast<size_t>(label)]},
                                    {"support", score.support},
                                    {"predicted", score.predicted},
                                    {"precision", score.precision()},
                                    {"recall", score.recall()},
                                    {"f1", score.f1()},
                                    {"top1", score.recall()}}));
    Json row = Json::array();
    for (int64_t c = 0; c < report.classes(); ++c) row.push_back(report.count(label, c));
    matrix.push_back(std::move(row));
  }
  return Json::object({{"classes", std::move(classes)},
                       {"macro", means_json(report.macro_mean())},
                       {"weighted", means_json(report.weighted_mean())},
                       {"undecided", report.undecided()},
                       {"confusion_matrix", std::move(matrix)}});
}

namespace {

// The largest useful batch, because rows without a sample are computed as well. It is a multiple of 64, so that a validation set
// that fits into one of the run's batches is evaluated with the run's shapes and kernels.
int64_t rows_for(int64_t samples, int64_t limit) {
  constexpr int64_t kRows = 64;
  if (limit >= 0) samples = std::min(limit, samples);
  return std::max<int64_t>(1, (samples + kRows - 1) / kRows) * kRows;
}

std::unique_ptr<pipeline::Loader> open_loader(const EvaluateOptions& options, const Registries& registries,
                                              const ModelState& state, const data::Dataset& dataset,
                                              const FoldSamples& fold, int threads, Device& device) {
  pipeline::LoaderOptions loader;
  loader.data = dataset.directory();
  loader.augment = state.val_augment;
  const auto chain = value_or_throw(augment::Chain::parse(state.val_augment, registries.augmentations));
  if (const std::string random = random_chain_warning(chain, state.val_augment); !random.empty())
    log(LogLevel::kWarning, random);
  loader.channels = static_cast<int>(state.arguments.channels);
  loader.batch = std::min(options.batch, rows_for(dataset.size(), options.limit));
  loader.threads = threads;
  loader.limit = options.limit;
  loader.samples = fold.own;
  loader.epochs = 1;
  loader.fields =
      value_or_throw(model_fields(loader.data, state.arguments.length > 0, state.task.fields)).names;
  loader.mask_fill = TargetSpec::kIgnored;
  loader.ops = &registries.augmentations;
  loader.device = &device;
  if (!device.is_host()) loader.coef_decode = engine::device_code(device).decode_coefficients;
  return value_or_throw(pipeline::Loader::open(pipeline::validation_options(loader)));
}

/// "fold 3 of 5", or "100 of the 240 samples of fold 3 of 5".
std::string subset_of_fold(const FoldSamples& fold, int64_t samples) {
  const auto all = static_cast<int64_t>(fold.own->size());
  if (samples == all) return fold.name;
  return concat(human_count(samples), " of the ", counted(all, "sample"), " of ", fold.name);
}

EvalOptions eval_options(const EvaluateOptions& options, const Registries& registries,
                         const LoadedModel& loaded) {
  const ModelState& state = loaded.state;
  EvalOptions eval;
  eval.task = &task_of(state.task);
  eval.task_state = state.task;
  eval.target = eval.task->target(state.task, state.arguments.classes);
  eval.loss = value_or_throw(registries.losses.find(state.loss));
  eval.loss_arguments = state.loss_options;
  eval.dtype = dtype_of(loaded, options.model.dtype);
  eval.tf32 = take_tf32(options.tf32, loaded.model->device());
  eval.views = value_or_throw(parse_views(state.tta));
  eval.stop = options.stop;
  for (const std::string& metric : state.metrics) {
    eval.metrics.push_back(value_or_throw(registries.metrics.find(metric)));
  }
  return eval;
}

/// The mappings between a dataset's images and what the chain made of them. One thread.
class SeenMaps {
 public:
  /// `needs` and `instead` are parts of messages: what needs the mappings, and an alternative.
  SeenMaps(const data::Dataset& dataset, const ModelState& state, const augment::OpRegistry& ops,
           const char* needs, const char* instead)
      : dataset_(dataset),
        channels_(static_cast<int>(state.arguments.channels)),
        chain_(value_or_throw(augment::Chain::parse(state.val_augment, ops))),
        instead_(instead) {
    if (!random_chain_warning(chain_, state.val_augment).empty())
      refuse("eval", needs, " need a --val-augment without random ops; give another, or use ", instead);
  }

  struct Seen {
    SeenMap map;
    augment::ImageSize made;  // by the chain
  };
  Seen of(int64_t id) const {
    const data::RecordHeader header = value_or_throw(dataset_.header(id));
    augment::ChainPlan plan;
    throw_if_error(chain_.plan({header.width, header.height, channels_}, SampleKey{}, plan));
    Result<SeenMap> map = seen_map(plan);
    if (!map.ok())
      throw Error(Status(map.status().code(), concat("[eval] ", map.status().message(), ", or ", instead_)));
    return {*map, plan.out};
  }

 private:
  const data::Dataset& dataset_;
  const int channels_;
  const augment::Chain chain_;
  const char* instead_;
};

/// Counts the pixels of masks in their own size. One thread.
class WholeMasks {
 public:
  WholeMasks(const data::Dataset& dataset, const TargetSpec& target, const ModelState& state,
             const augment::OpRegistry& ops)
      : dataset_(dataset),
        target_(target),
        maps_(dataset, state, ops, "masks in their own size", "--resized-masks"),
        reader_(value_or_throw(dataset.reader())) {}

  void count(const Batch& batch, const engine::Tensor& logits, Tally& tally) {
    for (int64_t i = 0; i < batch.count; ++i) {
      if (batch.weight[static_cast<size_t>(i)] == 0) continue;
      const int64_t id = batch.sample_ids[static_cast<size_t>(i)];
      const auto record = value_or_throw(data::record_without_image(dataset_, *reader_, id));
      const ConstImageView mask = value_or_throw(
          decoder_.decode(value_or_throw(data::field_bytes(dataset_, record, target_.fields.at(0)))));
      check(mask, id);
      const engine::Tensor own = engine::slice(logits, 0, i, i + 1).contiguous_copy();
      count_whole_mask(engine::reshape(own, {logits.size(1), logits.size(2), logits.size(3)}),
                       maps_.of(id).map, mask, tally);
    }
  }

 private:
  void check(const ConstImageView& mask, int64_t id) const {
    for (int y = 0; y < mask.height; ++y)
      for (int x = 0; x < mask.width; ++x)
        if (mask.row(y)[x] != TargetSpec::kIgnored && mask.row(y)[x] >= target_.outputs)
          throw unknown_class(target_, id, mask.row(y)[x]);
  }

  const data::Dataset& dataset_;
  const TargetSpec& target_;
  const SeenMaps maps_;
  const std::unique_ptr<data::Dataset::Reader> reader_;
  data::MaskDecoder decoder_;
};

// Passes each sample of a batch to the consumers that requested it.
class SampleObserver {
 public:
  SampleObserver(const EvaluateOptions& options, const data::Dataset& dataset, const augment::OpRegistry& ops,
                 int64_t total, Evaluation& evaluation)
      : options_(options),
        dataset_(dataset),
        total_(total),
        state_(evaluation.model.state),
        task_(task_of(state_.task)),
        classes_(evaluation.model.state.classes),
        report_(evaluation.classes) {
    if (!options_.on_sample) return;
    reader_ = value_or_throw(dataset_.reader());
    if (task_.output == engine::ModelOutput::kBoxes)
      maps_.emplace(dataset_, state_, ops, "--predictions of boxes", "dlpipe predict --json");
  }

  void add(const Batch& batch, std::span<const float> logits, int64_t classes) {
    const auto width = static_cast<size_t>(classes);
    if (options_.on_sample && !has_classes() && !maps_ && state_.task.mean.empty())
      targets_ = batch_target(batch, task_.target(state_.task, classes));
    for (size_t i = 0; i < static_cast<size_t>(batch.count); ++i) {
      if (batch.weight[i] == 0 || (!report_ && !options_.on_sample)) continue;
      const std::span<const float> own = logits.subspan(i * width, width);
      if (has_classes()) {
        add_sample(batch.sample_ids[i], own);
      } else if (maps_) {
        add_boxes(batch.sample_ids[i], own);
      } else {
        add_answers(batch.sample_ids[i], i, own);
      }
    }
    done_ += batch.count;
    if (options_.on_progress) options_.on_progress(done_, total_);
  }

 private:
  /// Whether each sample has one class.
  bool has_classes() const { return state_.task.fields.empty(); }

  void add_boxes(int64_t id, std::span<const float> outputs) {
    SampleAnswer answer;
    answer.id = id;
    answer.path = path_of(id);
    const SeenMaps::Seen seen = maps_->of(id);
    answer.boxes = predicted_boxes(state_, seen.made, seen.map, outputs);
    options_.on_sample(answer, classes_);
  }

  void add_answers(int64_t id, size_t row, std::span<const float> outputs) {
    if (!options_.on_sample) return;
    SampleAnswer answer;
    answer.id = id;
    answer.path = path_of(id);
    answer.answers = task_.answers(outputs, state_.task);
    if (state_.task.mean.empty()) {
      const std::span<const float> own(targets_.data<float>() + row * outputs.size(), outputs.size());
      answer.targets.assign(own.begin(), own.end());
    } else {
      answer.targets = stored_numbers(id);  // in the data's units, as the outputs
    }
    options_.on_sample(answer, classes_);
  }

  /// The numbers that the sample has in the fields that the model predicts.
  std::vector<double> stored_numbers(int64_t id) {
    std::vector<double> numbers;
    const auto record = value_or_throw(data::record_without_image(dataset_, *reader_, id));
    for (const std::string& name : state_.task.fields) {
      const auto field = std::ranges::find(dataset_.fields(), name, &data::Field::name);
      const auto bytes = value_or_throw(data::field_bytes(dataset_, record, name));
      const size_t size = dtype_size(field->dtype);
      for (size_t at = 0; at + size <= bytes.size(); at += size)
        numbers.push_back(target_number(bytes.data() + at, field->dtype));
    }
    return numbers;
  }

  void add_sample(int64_t id, std::span<const float> logits) {
    const int64_t label = value_or_throw(dataset_.header(id)).label;
    if (report_) report_->add(label, logits);
    if (!options_.on_sample) return;
    SampleAnswer answer;
    answer.id = id;
    answer.path = path_of(id);
    answer.label = label;
    answer.top = top_classes(logits, static_cast<size_t>(std::max<int64_t>(options_.top, 1)));
    if (std::isnan(logits[answer.top.front()])) answer.top.clear();
    const std::vector<double> probabilities = probabilities_of(logits);
    for (const size_t c : answer.top) answer.probabilities.push_back(probabilities[c]);
    answer.loss = engine::cross_entropy_of(logits, label);
    options_.on_sample(answer, classes_);
  }

  std::string path_of(int64_t id) {
    const auto record = value_or_throw(data::record_without_image(dataset_, *reader_, id));
    const auto path = data::field_bytes(dataset_, record, "path");
    if (!path.ok()) return {};
    return {reinterpret_cast<const char*>(path->data()), path->size()};
  }

  const EvaluateOptions& options_;
  const data::Dataset& dataset_;
  int64_t total_;
  int64_t done_ = 0;
  const ModelState& state_;
  const TaskRecord& task_;
  engine::Tensor targets_;        // of the batch, if they are rows of numbers
  std::optional<SeenMaps> maps_;  // for boxes
  const std::vector<std::string>& classes_;
  std::optional<ClassReport>& report_;
  std::unique_ptr<data::Dataset::Reader> reader_;
};

}  // namespace

/// Warns if the model's run was trained on `fold` of this dataset.
static void warn_of_fold(const std::string& fold, const data::Dataset& dataset, const std::string& model) {
  const std::optional<TrainConfig> run = config_of_run(model);
  if (!run || fold.empty() || run->fold == fold) return;
  const auto id = run->record.find("data-id");
  if (id == run->record.end() || id->second != dataset.id()) return;
  log(LogLevel::kWarning,
      concat("[eval] ", printable(model), " was trained on fold ", printable(fold), ", because ",
             run->fold.empty() ? std::string("it held out no fold")
                               : concat("it held out fold ", printable(run->fold)),
             ": metrics are valid only for samples that training has not seen"));
}

Evaluation evaluate_dataset(const EvaluateOptions& options, const Registries& registries,
                            const LogitsObserver& observer) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  engine::set_engine_threads(threads);
  Device& device = *value_or_throw(registries.find_device(options.device));
  const EvaluationData data = options.fold.empty() || !options.split.empty()
                                  ? value_or_throw(evaluation_data(options.data, options.split))
                                  : EvaluationData{value_or_throw(training_data(options.data)), ""};
  const auto dataset = value_or_throw(data::Dataset::open(data.directory));
  Evaluation evaluation;
  evaluation.data = data.directory;
  evaluation.model = load_model(options.model, registries, dataset.get());
  evaluation.model.model->to(device);
  const ModelState& state = evaluation.model.state;
  const bool takes_tokens = state.arguments.length > 0;
  throw_if_error(check_input_kind(state.model, takes_tokens, data.directory,
                                  value_or_throw(image_channels(data.directory))));
  if (takes_tokens && (options.report || options.on_sample)) {
    refuse("eval", "--report and --predictions are only for images; ", state.model, " takes tokens");
  }
  const TaskRecord& task = task_of(state.task);
  if (task.output == engine::ModelOutput::kPixels && options.on_sample)
    refuse("eval", "--predictions writes one row of numbers for each image, and --task ", task.name,
           " returns a class for each pixel; dlpipe predict --draw writes masks");
  if (options.resized_masks && task.output != engine::ModelOutput::kPixels)
    refuse("eval", "--resized-masks is for segmentation, and this model's task is ", task.name,
           "; leave it out");
  if (!state.task.fields.empty()) {
    throw_if_error(check_fields(state.task, *dataset, "eval"));
  } else if (!takes_tokens) {
    throw_if_error(check_samples_have_classes(
        "eval", *dataset, value_or_throw(model_fields(data.directory, takes_tokens)).unused));
  }
  if (task.names_classes)
    throw_if_error(check_classes(evaluation.model.path, state.classes, data.directory, dataset->classes(),
                                 dataset_of_run(evaluation.model.path)));
  if (options.report && task.report == nullptr)
    evaluation.classes = value_or_throw(ClassReport::make(state.arguments.classes));

  const FoldSamples fold =
      options.fold.empty() ? FoldSamples{} : value_or_throw(samples_of_fold(*dataset, options.fold, "eval"));
  const auto source = open_loader(options, registries, state, *dataset, fold, threads, device);
  warn_of_fold(options.fold, *dataset, evaluation.model.path);
  evaluation.subset =
      fold.own == nullptr ? source->subset() : subset_of_fold(fold, source->samples_per_epoch());
  if (options.on_note) {
    if (!data.note.empty()) options.on_note(data.note);
    for (const std::string& note : evaluation.model.notes) options.on_note(note);
    const bool has_folds = std::ranges::any_of(
        dataset->fields(), [](const data::Field& field) { return field.name == data::kFoldField; });
    if (has_folds && options.fold.empty())
      options.on_note(concat(dataset->directory(),
                             " has folds, and all of them are evaluated; --fold N evaluates one, which a run "
                             "with --fold N was not trained on"));
  }
  engine::ConstantCache constants = weights_as_constants(evaluation.model.model->parameters());
  const engine::UseConstantCache packed_once(&constants);
  SampleObserver samples(options, *dataset, registries.augmentations, source->samples_per_epoch(),
                         evaluation);
  OutputReport figures{.names = state.classes};
  EvalOptions eval = eval_options(options, registries, evaluation.model);
  std::optional<WholeMasks> masks;
  evaluation.has_whole_masks = task.output == engine::ModelOutput::kPixels && !options.resized_masks;
  if (evaluation.has_whole_masks) {
    masks.emplace(*dataset, eval.target, state, registries.augmentations);
    eval.count = [&](const Batch& batch, const engine::Tensor& logits, Tally& tally) {
      masks->count(batch, logits, tally);
    };
  }
  evaluation.report = evaluate(
      *evaluation.model.model, *source, eval,
      [&](const Batch& batch, std::span<const float> logits, int64_t classes) {
        if (observer) observer(batch, logits, classes);
        samples.add(batch, logits, classes);
      },
      options.report ? &figures : nullptr);
  evaluation.columns = std::move(figures.figures.columns);
  evaluation.figures = std::move(figures.figures.rows);
  return evaluation;
}

}  // namespace dlpipe::run
