// A session's data: the loaders, and what the model takes from them.
#include <algorithm>
#include <cmath>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/input/cached_batch.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/train/resume_rules.h"
#include "dlpipe/run/train/session.h"

namespace dlpipe::run {

pipeline::LoaderOptions Session::loader_options() const {
  pipeline::LoaderOptions options;
  options.batch = config_.batch;
  options.threads = threads_;
  options.slots = static_cast<int>(config_.slots);
  options.seed = static_cast<uint64_t>(config_.seed);
  options.max_bad = config_.max_bad;
  options.max_pixels = config_.max_pixels;
  options.ops = registries_.augmentations;
  return options;
}

void Session::use_device(pipeline::LoaderOptions& options) const {
  options.device = device_;
  if (!is_on_host()) options.coef_decode = engine::device_code(*device_).decode_coefficients;
  if (config_.decode == "host") options.decode = pipeline::Decode::kHost;
}

static Status no_steps(const TrainConfig& config, int64_t batches_per_epoch) {
  return {ErrorCode::kMisuse,
          concat("[train] there is no step to train: --epochs ", config.epochs, " of ", batches_per_epoch,
                 batches_per_epoch == 1 ? " batch" : " batches", ", and a step takes ", config.accumulate,
                 " (--accumulate); give more, or 0 to save and validate the initial weights alone")};
}

/// Throws Error for what is no schedule.
static engine::ScheduleArguments schedule_of(const TrainConfig& config, int64_t batches_per_epoch) {
  const double steps_per_epoch =
      static_cast<double>(batches_per_epoch) / static_cast<double>(config.accumulate);
  engine::ScheduleArguments schedule;
  schedule.total_steps = std::llround(std::floor(config.epochs * steps_per_epoch + 1e-9));
  if (config.max_steps >= 0) schedule.total_steps = std::min(schedule.total_steps, config.max_steps);
  if (config.overfit_batch > 0) schedule.total_steps = config.overfit_batch;
  schedule.name = config.schedule;
  schedule.lr = config.lr.value_or(schedule.lr);
  schedule.warmup_steps = std::llround(config.warmup.value_or(0) * steps_per_epoch);
  schedule.warmup_start = config.warmup_start.value_or(schedule.warmup_start);
  schedule.gamma = config.gamma.value_or(schedule.gamma);
  schedule.final_ratio = config.final_ratio.value_or(schedule.final_ratio);
  schedule.peak_at = config.peak_at.value_or(schedule.peak_at);
  for (const std::string& milestone : config.milestones) {
    double epoch = 0;
    if (!parse_double(milestone, &epoch) || epoch < 0) {
      throw Error(Status(ErrorCode::kMisuse, concat("[config] --milestones holds '", milestone,
                                                    "'; expected epochs, as 30,60,80")));
    }
    schedule.milestones.push_back(std::llround(epoch * steps_per_epoch));
  }
  if (config.epochs == 0 || config.max_steps == 0) return schedule;  // on purpose
  if (schedule.total_steps < 1) throw Error(no_steps(config, batches_per_epoch));
  value_or_throw(engine::learning_rate(schedule, 0));
  return schedule;
}

// Weights go on with the normalisation that they know. It becomes part of --augment, so that config.toml has
// it, and a resumed run needs the file no more.
void Session::take_initial_normalization(int channels) {
  if (config_.init.empty() || is_resumed_) return;
  init_ = open_weights(config_.init);
  const augment::OpRegistry& registry = registries_.augmentation_registry();
  if (channels == 0 || value_or_throw(augment::Chain::parse(config_.augment, registry)).contains("normalize"))
    return;
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  const WeightsNormalization known = normalization_of(*init_, *record, channels, registry);
  if (known.op.empty()) {
    note(concat("normalisation: the dataset's own mean and std; ", config_.init,
                " doesn't say what its weights were trained with. If you know, add "
                "normalize(mean=r:g:b,std=r:g:b) to --augment"));
    return;
  }
  config_.augment += concat(config_.augment.empty() ? "" : " ", known.op);
  note(concat("normalisation: ", known.op, ", ", known.origin, " (a normalize(...) in --augment wins)"));
}

void Session::open_train() {
  pipeline::LoaderOptions options = loader_options();
  options.data = value_or_throw(training_data(config_.data));
  options.channels = value_or_throw(image_channels(options.data));
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  throw_if_error(check_input_kind(config_.model, record->input == engine::ModelInput::kTokens, options.data,
                                  options.channels));
  take_initial_normalization(options.channels);
  options.augment =
      options.channels == 0
          ? config_.augment
          : value_or_throw(training_chain(config_.augment, registries_.augmentation_registry()));
  options.limit = config_.limit;
  if (config_.overfit_batch == 0) {
    options.mixup = config_.mixup;
    options.cutmix = config_.cutmix;
  }
  options.hash_pixels = config_.receipt == "pixels";
  if (config_.overfit_batch == 0) {
    use_device(options);
    if (config_.decode == "device") options.decode = pipeline::Decode::kDevice;
  }
  if (directory_ != nullptr) options.quarantine_file = directory_->quarantine_file();
  if (config_.max_steps < 0 && config_.overfit_batch == 0) {
    options.epochs = std::max<int64_t>(1, std::llround(std::ceil(config_.epochs)));
  }
  auto loader = value_or_throw(pipeline::Loader::open(options));
  if (!loader->decode_reason().empty())
    note(concat("images are decoded on the host: ", loader->decode_reason()));
  const data::Dataset& dataset = loader->dataset();
  ModelState& model = settings_.model_state;
  model.model = config_.model;
  model.classes.assign(dataset.classes().begin(), dataset.classes().end());
  model.arguments.classes = static_cast<int64_t>(model.classes.size());
  model.arguments.seed = static_cast<uint64_t>(config_.seed);
  take_input_sizes(*loader, options.augment);
  model.tta = config_.tta;
  model.dtype = config_.dtype;
  model.loss = config_.loss;
  model.metrics = config_.metrics;
  dataset_id_ = dataset.id();
  pipeline_id_ = loader->pipeline_id();
  subset_ = loader->subset();
  const int64_t samples = config_.limit < 0 ? dataset.size() : std::min(config_.limit, dataset.size());
  left_out_ = config_.overfit_batch > 0 ? 0 : samples - loader->samples_per_epoch();
  if (!subset_.empty()) note(concat("--limit: training takes ", subset_));
  throw_if_error(check_dataset("data-id", config_.data, dataset_id_, config_));
  settings_.schedule = schedule_of(config_, loader->batches_per_epoch());
  if (former_) {
    throw_if_error(check_same_past(schedule_of(*former_, loader->batches_per_epoch()), settings_.schedule,
                                   state_.step, config_));
  }
  train_ = std::move(loader);
}

// The model's input as the data have it: pictures' sizes and how they are prepared, or a sequence's length.
void Session::take_input_sizes(const pipeline::Loader& loader, const std::string& train_chain) {
  ModelState& model = settings_.model_state;
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  const FieldSpec* image = image_field(loader.schema());
  const FieldSpec* tokens = token_field(loader.schema());
  const bool wants_tokens = record->input == engine::ModelInput::kTokens;
  const bool has_input =
      wants_tokens ? tokens != nullptr : image != nullptr && label_field(loader.schema()) != nullptr;
  if (!has_input || model.classes.empty()) {
    throw Error(
        Status(ErrorCode::kMisuse, concat("[train] ", config_.model, " takes ",
                                          wants_tokens ? "sequences of tokens" : "images with classes",
                                          ", and ", loader.dataset().directory(), " has none")));
  }
  if (wants_tokens) {
    if (settings_.eval.views != Views::kOne)
      throw Error(Status(ErrorCode::kMisuse,
                         concat("[train] --tta is for pictures; ", config_.model, " takes tokens")));
    model.arguments.length = tokens->shape[0] - 1;
    return;
  }
  model.arguments.height = image->shape[0];
  model.arguments.width = image->shape[1];
  model.arguments.channels = image->shape[2];
  model.val_augment =
      value_or_throw(validation_chain(config_.val_augment, train_chain, image->shape,
                                      loader.dataset().pixel_stats(), registries_.augmentation_registry()));
}

void Session::open_val() {
  const std::string data = value_or_throw(validation_data(config_.data, config_.val));
  if (config_.overfit_batch > 0) return;
  if (data.empty()) {
    if (config_.early_stop > 0)
      throw Error(
          Status(ErrorCode::kMisuse,
                 "[train] --early-stop counts validations, and there is no validation set; give --val"));
    note(concat("no validation set: --val isn't given and --data is no split",
                config_.tta == "none" ? "" : "; --tta is kept for eval and predict"));
    return;
  }
  if (settings_.val_every.unit == Interval::Unit::kNever)
    note(concat("--val-every never: ", data, " is not used"));
  pipeline::LoaderOptions options = pipeline::validation_options(loader_options());
  options.data = data;
  options.augment = settings_.model_state.val_augment;
  options.channels = static_cast<int>(settings_.model_state.arguments.channels);
  options.epochs = 1;
  use_device(options);
  val_ = value_or_throw(pipeline::Loader::open(options));
  throw_if_error(check_dataset("val-id", data, val_->dataset().id(), config_));
  throw_if_error(check_classes(config_.data, classes(), data, val_->dataset().classes()));
}

// Training images in the run's own order, prepared as for validation.
void Session::initialize_from_images() {
  constexpr int64_t kImages = 512;
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  if (record->initialize_from_images == nullptr) return;
  pipeline::LoaderOptions options = loader_options();
  options.data = value_or_throw(training_data(config_.data));
  options.augment = settings_.model_state.val_augment;
  options.channels = static_cast<int>(settings_.model_state.arguments.channels);
  options.limit = config_.limit;
  options.batch = std::min(kImages, train_->samples_per_epoch());
  options.slots = 2;
  const auto loader = value_or_throw(pipeline::Loader::open(options));
  const std::optional<Batch> batch = value_or_throw(loader->next());
  if (!batch) return;
  record->initialize_from_images(*model_, batch_input(*batch).pixels);
  throw_if_error(loader->release(*batch));
}

void Session::use_one_batch() {
  std::optional<Batch> batch = value_or_throw(train_->next());
  auto cached = std::make_unique<CachedBatch>(*batch);
  throw_if_error(train_->release(*batch));
  train_ = std::move(cached);
}

}  // namespace dlpipe::run
