#include "dlpipe/run/use/evaluate_dataset.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/config/precision.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/saved_config.h"

namespace dlpipe::run {

namespace {

// The largest batch that is of use: rows without a sample are computed, too. In 64s, so that a validation set
// that fits one of the run's batches is judged in the shapes, and by the kernels, of the run.
int64_t rows_for(int64_t samples, int64_t limit) {
  constexpr int64_t kRows = 64;
  if (limit >= 0) samples = std::min(limit, samples);
  return std::max<int64_t>(1, (samples + kRows - 1) / kRows) * kRows;
}

std::unique_ptr<pipeline::Loader> open_loader(const EvaluateOptions& options, const Registries& registries,
                                              const ModelState& state, const data::Dataset& dataset,
                                              int threads, Device& device) {
  pipeline::LoaderOptions loader;
  loader.data = dataset.directory();
  loader.augment = state.val_augment;
  loader.channels = static_cast<int>(state.arguments.channels);
  loader.batch = std::min(options.batch, rows_for(dataset.size(), options.limit));
  loader.threads = threads;
  loader.limit = options.limit;
  loader.epochs = 1;
  loader.fields = value_or_throw(model_fields(loader.data, state.arguments.length > 0)).names;
  loader.ops = &registries.augmentations;
  loader.device = &device;
  if (!device.is_host()) loader.coef_decode = engine::device_code(device).decode_coefficients;
  return value_or_throw(pipeline::Loader::open(pipeline::validation_options(loader)));
}

EvalOptions eval_options(const EvaluateOptions& options, const Registries& registries,
                         const LoadedModel& loaded) {
  const ModelState& state = loaded.state;
  EvalOptions eval;
  eval.loss = value_or_throw(registries.losses.find(state.loss));
  eval.dtype = dtype_of(loaded, options.model.dtype);
  eval.tf32 = take_tf32(options.tf32, loaded.model->device());
  eval.views = value_or_throw(parse_views(state.tta));
  eval.stop = options.stop;
  for (const std::string& metric : state.metrics) {
    eval.metrics.push_back(value_or_throw(registries.metrics.find(metric)));
  }
  return eval;
}

// Hands each sample of a batch to whoever asked for it.
class SampleObserver {
 public:
  SampleObserver(const EvaluateOptions& options, const data::Dataset& dataset, int64_t total,
                 Evaluation& evaluation)
      : options_(options),
        dataset_(dataset),
        total_(total),
        classes_(evaluation.model.state.classes),
        report_(evaluation.classes) {
    if (options_.on_sample) reader_ = value_or_throw(dataset_.reader());
  }

  void add(const Batch& batch, std::span<const float> logits, int64_t classes) {
    const auto width = static_cast<size_t>(classes);
    for (size_t i = 0; i < static_cast<size_t>(batch.count); ++i) {
      const bool counts = batch.weight[i] != 0;
      if (counts && (report_ || options_.on_sample))
        add_sample(batch.sample_ids[i], logits.subspan(i * width, width));
    }
    done_ += batch.count;
    if (options_.on_progress) options_.on_progress(done_, total_);
  }

 private:
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
    const auto record = value_or_throw(reader_->record(id));
    const auto path = data::field_bytes(dataset_, record, "path");
    if (!path.ok()) return {};
    return {reinterpret_cast<const char*>(path->data()), path->size()};
  }

  const EvaluateOptions& options_;
  const data::Dataset& dataset_;
  int64_t total_;
  int64_t done_ = 0;
  const std::vector<std::string>& classes_;
  std::optional<ClassReport>& report_;
  std::unique_ptr<data::Dataset::Reader> reader_;
};

}  // namespace

Evaluation evaluate_dataset(const EvaluateOptions& options, const Registries& registries,
                            const LogitsObserver& observer) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  engine::set_engine_threads(threads);
  Device& device = *value_or_throw(registries.find_device(options.device));
  const EvaluationData data = value_or_throw(evaluation_data(options.data, options.split));
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
    refuse("eval", "--report and --predictions are for pictures; ", state.model, " takes tokens");
  }
  if (!takes_tokens)
    throw_if_error(check_samples_have_classes(
        "eval", *dataset, value_or_throw(model_fields(data.directory, takes_tokens)).unused));
  throw_if_error(check_classes(evaluation.model.path, state.classes, data.directory, dataset->classes(),
                               dataset_of_run(evaluation.model.path)));
  if (options.report) evaluation.classes = value_or_throw(ClassReport::make(state.arguments.classes));

  const auto source = open_loader(options, registries, state, *dataset, threads, device);
  evaluation.subset = source->subset();
  if (options.on_note) {
    if (!data.note.empty()) options.on_note(data.note);
    for (const std::string& note : evaluation.model.notes) options.on_note(note);
  }
  engine::ConstantCache constants = weights_as_constants(evaluation.model.model->parameters());
  const engine::UseConstantCache packed_once(&constants);
  SampleObserver samples(options, *dataset, source->samples_per_epoch(), evaluation);
  evaluation.report =
      evaluate(*evaluation.model.model, *source, eval_options(options, registries, evaluation.model),
               [&](const Batch& batch, std::span<const float> logits, int64_t classes) {
                 if (observer) observer(batch, logits, classes);
                 samples.add(batch, logits, classes);
               });
  return evaluation;
}

}  // namespace dlpipe::run
