#include "dlpipe/run/train/session/data.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/io/data/sample.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/config/given_options.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/input/cached_batch.h"
#include "dlpipe/run/input/data_paths.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/train/session/linked_data.h"
#include "dlpipe/run/train/session/resume_rules.h"

namespace dlpipe::run {

namespace {

pipeline::LoaderOptions loader_options(const SessionOptions& session) {
  const TrainConfig& config = session.config;
  pipeline::LoaderOptions options;
  options.batch = config.batch / session.ranks.data_world();
  options.rank = session.ranks.data_rank();
  options.world = session.ranks.data_world();
  options.grains = config.grains;
  options.threads = session.threads;
  options.slots = static_cast<int>(config.slots);
  options.seed = static_cast<uint64_t>(config.seed);
  options.max_bad = config.max_bad;
  options.max_pixels = config.max_pixels;
  options.ops = &session.registries.augmentations;
  return options;
}

pipeline::Decode decode_of(const SessionOptions& session) {
  return value_or_throw(value_named(pipeline::kDecodeNames, session.config.decode, "train", "--decode"));
}

/// Batches go to the run's device.
void use_device(const SessionOptions& session, pipeline::LoaderOptions& options) {
  options.device = session.device;
  if (!session.is_on_host()) options.coef_decode = engine::device_code(*session.device).decode_coefficients;
  if (decode_of(session) == pipeline::Decode::kHost) options.decode = pipeline::Decode::kHost;
}

Status no_steps(const TrainConfig& config, int64_t batches_per_epoch) {
  return misuse("train", "there is no step to train: --epochs ", config.epochs, " of ", batches_per_epoch,
                batches_per_epoch == 1 ? " batch" : " batches", ", and a step takes ", config.accumulate,
                " (--accumulate); give more, or 0 to save and validate the initial weights alone");
}

/// What trains well without a word about it: images of one small size are moved by an eighth of it, others are cropped at random
/// to the size that the model is made for; but small ones of several sizes to about the largest of these, where the model is made
/// for a larger one. Colour images are flipped, grey ones, which may be letters, are not.
std::string default_augment(const SessionOptions& session, const data::Dataset& dataset, int channels) {
  if (channels == 0 || session.overfits() || dataset.size() == 0) return {};
  constexpr int kSmall = 64, kUsual = 224, kStep = 8;
  const data::RecordHeader first = value_or_throw(dataset.header(0));
  bool has_one_size = true;
  int largest = 0;  // side
  for (int64_t sample = 0; sample < dataset.size() && (has_one_size || largest <= kSmall); ++sample) {
    const data::RecordHeader header = value_or_throw(dataset.header(sample));
    has_one_size = has_one_size && header.width == first.width && header.height == first.height;
    largest = std::max({largest, header.width, header.height});
  }
  const int64_t own = session.model->default_size;
  const bool is_own = has_one_size && first.width == own && first.height == own;
  const bool is_small = largest <= kSmall && session.graph == nullptr;
  const std::string one_size =
      concat(first.height, first.height == first.width ? std::string() : concat("x", first.width));
  const std::string flip = channels == 1 ? "" : " hflip";
  if (is_own || (is_small && has_one_size))
    return concat("pad_crop(", one_size, ",", std::max(1, std::min(first.width, first.height) / 8), ")",
                  flip);
  if (is_small && (own == 0 || own > kSmall))
    return concat("rrc(", (largest + kStep - 1) / kStep * kStep, ")", flip);
  return concat("rrc(",
                own > 0        ? std::to_string(own)
                : has_one_size ? one_size
                               : std::to_string(kUsual),
                ")", flip);
}

/// --augment, or what stands for it where it isn't given, which is told.
std::string augment_of(const SessionOptions& session, const std::string& directory, int channels,
                       const Notes& notes) {
  const TrainConfig& config = session.config;
  if (config.augment != kAutoAugment) return config.augment;
  const auto dataset = value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  std::string augment = default_augment(session, *dataset, channels);
  if (!augment.empty())
    tell(notes, concat("augmentation: ", augment, ", the default for these images and ", config.model,
                       "; --augment \"...\" takes another, --augment \"\" none"));
  return augment;
}

// Weights go on with the normalisation that they know. It becomes part of --augment, so that config.toml has
// it, and a resumed run needs the file no more.
std::string with_normalization_of(const WeightsSource& init, const std::string& augment, int channels,
                                  const SessionOptions& session, const Notes& notes) {
  const TrainConfig& config = session.config;
  const augment::OpRegistry& registry = session.registries.augmentations;
  if (channels == 0 || value_or_throw(augment::Chain::parse(augment, registry)).contains("normalize"))
    return augment;
  const WeightsNormalization known = normalization_of(init, *session.model, channels, registry);
  if (init.state && init.state->arguments.channels != channels) {
    tell(notes,
         concat("normalisation: the dataset's own mean and std; ", config.init, " was trained on images of ",
                init.state->arguments.channels, " channels, and these have ", channels));
    return augment;
  }
  if (known.op.empty()) {
    warn(notes, concat("normalisation: the dataset's own mean and std; ", config.init,
                       " doesn't say what its weights were trained with. If you know, add "
                       "normalize(mean=r:g:b,std=r:g:b) to --augment"));
    return augment;
  }
  tell(notes,
       concat("normalisation: ", known.op, ", ", known.origin, " (a normalize(...) in --augment wins)"));
  return concat(augment, augment.empty() ? "" : " ", known.op);
}

void check_input(const SessionOptions& session, const pipeline::Loader& loader) {
  const data::Dataset& dataset = loader.dataset();
  const bool wants_tokens = session.model->input == engine::ModelInput::kTokens;
  const bool has_input =
      wants_tokens ? token_field(loader.schema()) != nullptr
                   : image_field(loader.schema()) != nullptr && label_field(loader.schema()) != nullptr;
  if (!has_input || (wants_tokens && dataset.classes().empty())) {
    refuse("train", session.config.model, " takes ",
           wants_tokens ? "sequences of tokens" : "images with classes", ", and ", dataset.directory(),
           " has none");
  }
  if (wants_tokens && session.eval.views != Views::kOne)
    refuse("train", "--tta is for pictures; ", session.config.model, " takes tokens");
}

/// The model's input as the data have it: pictures' sizes and how they are prepared, or a sequence's length.
ModelState model_state_of(const SessionOptions& session, const pipeline::Loader& loader,
                          const std::string& train_chain) {
  const TrainConfig& config = session.config;
  const data::Dataset& dataset = loader.dataset();
  ModelState model;
  model.model = config.model;
  model.classes.assign(dataset.classes().begin(), dataset.classes().end());
  model.arguments.classes = static_cast<int64_t>(model.classes.size());
  model.arguments.seed = static_cast<uint64_t>(config.seed);
  model.tta = config.tta;
  model.dtype = config.dtype;
  model.loss = config.loss;
  model.metrics = config.metrics;
  check_input(session, loader);
  if (session.model->input == engine::ModelInput::kTokens) {
    model.arguments.length = token_field(loader.schema())->shape[0] - 1;
    return model;
  }
  const Shape& image = image_field(loader.schema())->shape;
  model.arguments.height = image[0];
  model.arguments.width = image[1];
  model.arguments.channels = image[2];
  model.val_augment = value_or_throw(validation_chain(
      config.val_augment, train_chain, image, dataset.pixel_stats(), session.registries.augmentations));
  return model;
}

/// Of --cache coefficients. Processes of a run read other pictures every epoch, and each keeps a cache of its own.
std::string cache_of(const std::string& run_directory, int rank) {
  return concat(run_directory, "/cache", rank > 0 ? concat("-", rank) : "");
}

/// The options of the training loader, all but its augmentation.
pipeline::LoaderOptions train_options(const SessionOptions& session, const std::string& quarantine_file) {
  const TrainConfig& config = session.config;
  pipeline::LoaderOptions options = loader_options(session);
  options.data = value_or_throw(training_data(config.data));
  options.channels = value_or_throw(image_channels(options.data));
  options.limit = config.limit;
  options.hash_pixels = value_or_throw(parse_receipt(config.receipt));
  options.quarantine_file = quarantine_file;
  if (session.overfits()) return options;
  if (value_or_throw(parse_cache(config.cache))) {
    options.cache = cache_of(config.out, session.ranks.rank());
    options.cache_bytes = cache_share(session.cache_bytes, session.ranks.world());
  }
  options.mixup = config.mixup;
  options.cutmix = config.cutmix;
  use_device(session, options);
  options.decode = decode_of(session);
  if (config.max_steps < 0) options.epochs = std::max<int64_t>(1, std::llround(std::ceil(config.epochs)));
  return options;
}

ModelFields fields_of(const SessionOptions& session, const std::string& dataset) {
  return value_or_throw(model_fields(dataset, session.model->input == engine::ModelInput::kTokens));
}

/// Before a loader is opened: what can't be trained on at all is said before what doesn't suit a batch or a chain of it.
void check_classes_of_pictures(const SessionOptions& session, const std::string& directory,
                               const ModelFields& fields) {
  if (session.model->input == engine::ModelInput::kTokens) return;
  const auto dataset = value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  throw_if_error(check_samples_have_classes("train", *dataset, fields.unused));
}

void open_train(const SessionOptions& session, const WeightsSource* init, const std::string& quarantine_file,
                const Notes& notes, SessionData& data) {
  const TrainConfig& config = session.config;
  pipeline::LoaderOptions options = train_options(session, quarantine_file);
  // Before anything else is asked of the data: where they are another dataset, that is why they don't suit the run.
  throw_if_error(check_dataset(kDataOption, config.data, options.data, config));
  throw_if_error(check_input_kind(config.model, session.model->input == engine::ModelInput::kTokens,
                                  options.data, options.channels));
  const std::string augment = augment_of(session, options.data, options.channels, notes);
  data.augment =
      init != nullptr ? with_normalization_of(*init, augment, options.channels, session, notes) : augment;
  options.augment = options.channels == 0
                        ? data.augment
                        : value_or_throw(training_chain(data.augment, session.registries.augmentations));
  const ModelFields fields = fields_of(session, options.data);
  options.fields = fields.names;
  check_classes_of_pictures(session, options.data, fields);
  auto loader = value_or_throw(pipeline::Loader::open(options));
  if (!loader->decode_reason().empty())
    tell(notes, concat("images are decoded on the host: ", loader->decode_reason()));
  const data::Dataset& dataset = loader->dataset();
  data.model = model_state_of(session, *loader, options.augment);
  if (!fields.unused.empty())
    tell(notes, concat(config.model, " is not trained on ", fields.unused, " of ", options.data));
  data.dataset_id = dataset.id();
  data.pipeline_id = loader->pipeline_id();
  data.subset = loader->subset();
  const int64_t samples = config.limit < 0 ? dataset.size() : std::min(config.limit, dataset.size());
  data.train_samples = loader->batches_per_epoch() * config.batch;
  data.left_out = session.overfits() ? 0 : samples - data.train_samples;
  if (!data.subset.empty()) tell(notes, concat("--limit: training takes ", data.subset));
  data.schedule = schedule_of(config, loader->batches_per_epoch());
  data.scratch_bytes += static_cast<uint64_t>(loader->planned_scratch_bytes());
  data.train = std::move(loader);
}

/// Of pictures that the run has linked: where they are. "" of a dataset.
std::string pictures_of(const TrainConfig& config, const PathOption& option) {
  const auto found = config.record.find(pictures_key(option));
  return found == config.record.end() ? "" : found->second;
}

/// Where --val isn't given and no split of the data is one to validate on.
std::string no_validation_set(const TrainConfig& config) {
  const std::string pictures = pictures_of(config, kDataOption);
  const std::string text = concat("no validation set: --val isn't given, and ",
                                  pictures.empty() ? config.data : pictures, " has no split val");
  const std::vector<std::string> names = value_or_throw(data::split_names(config.data));
  const auto other = std::ranges::find_if(names, [](const std::string& name) { return name != "train"; });
  std::string path;
  if (other != names.end())
    path = pictures.empty() ? concat(config.data, "/", *other) : folder_of_split(pictures, *other);
  if (!path.empty()) return concat(text, "; --val ", shell_word(path), " takes ", *other);
  return concat(text, pictures.empty() ? "" : "; --val takes pictures or a dataset");
}

/// The pixels of a sample's image.
Result<std::vector<uint8_t>> pixels_of(data::SampleReader& reader, int64_t number) {
  DLPIPE_ASSIGN_OR_RETURN(const data::SampleReader::Sample sample, reader.read(number));
  const int width = static_cast<int>(sample.header.width), height = static_cast<int>(sample.header.height);
  const int channels = sample.header.channels;
  const ptrdiff_t stride = ptrdiff_t{width} * channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(stride) * static_cast<size_t>(height));
  DLPIPE_RETURN_IF_ERROR(reader.decode(sample, {pixels.data(), width, height, channels, stride}));
  return pixels;
}

/// Whether `val` is the training set: the same dataset, or as many samples, of which those that are looked at have the same
/// labels, names and pixels, as where one of them is a folder of the files that the other was made of. Names alone say nothing:
/// many published datasets number the images of each split from 1.
Result<bool> is_training_set(const data::Dataset& train, const data::Dataset& val) {
  if (train.id() == val.id()) return true;
  if (train.size() != val.size() || train.size() == 0) return false;
  constexpr int64_t kLooks = 32;
  DLPIPE_ASSIGN_OR_RETURN(const auto train_reader, train.reader());
  DLPIPE_ASSIGN_OR_RETURN(const auto val_reader, val.reader());
  DLPIPE_ASSIGN_OR_RETURN(const auto train_images, data::SampleReader::open(train));
  DLPIPE_ASSIGN_OR_RETURN(const auto val_images, data::SampleReader::open(val));
  for (int64_t look = 0; look < std::min(kLooks, train.size()); ++look) {
    const int64_t sample =
        look * (train.size() - 1) / std::max<int64_t>(1, std::min(kLooks, train.size()) - 1);
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader in_train, train.header(sample));
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader in_val, val.header(sample));
    if (in_train.label != in_val.label || in_train.width != in_val.width || in_train.height != in_val.height)
      return false;
    DLPIPE_ASSIGN_OR_RETURN(const auto train_record, train_reader->record(sample));
    const auto train_path = data::field_bytes(train, train_record, "path");
    DLPIPE_ASSIGN_OR_RETURN(const auto val_record, val_reader->record(sample));
    const auto val_path = data::field_bytes(val, val_record, "path");
    if (!train_path.ok() || !val_path.ok() || train_path->empty()) return false;
    if (!std::equal(train_path->begin(), train_path->end(), val_path->begin(), val_path->end())) return false;
    const auto train_pixels = pixels_of(*train_images, sample);
    const auto val_pixels = pixels_of(*val_images, sample);
    if (!train_pixels.ok() || !val_pixels.ok() || *train_pixels != *val_pixels) return false;
  }
  return true;
}

/// How many samples of `val` are in `train`, too, with the same image, label and name, by the checksums of their records. 0 where
/// checksums are late, as those of rows are then of what files begin with, and for very large datasets.
Result<int64_t> samples_in_training_set(const data::Dataset& train, const data::Dataset& val) {
  constexpr int64_t kMost = int64_t{64} << 20;
  if (train.has_late_checksums() || val.has_late_checksums() || std::max(train.size(), val.size()) > kMost)
    return 0;
  std::vector<uint64_t> checksums;
  for (int64_t sample = 0; sample < val.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, val.header(sample));
    checksums.push_back(header.checksum);
  }
  std::sort(checksums.begin(), checksums.end());
  std::vector<bool> is_found(checksums.size());
  for (int64_t sample = 0; sample < train.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, train.header(sample));
    const auto first = std::lower_bound(checksums.begin(), checksums.end(), header.checksum);
    for (auto same = static_cast<size_t>(first - checksums.begin());
         same < checksums.size() && checksums[same] == header.checksum && !is_found[same]; ++same)
      is_found[same] = true;
  }
  return std::count(is_found.begin(), is_found.end(), true);
}

void warn_of_training_set(const TrainConfig& config, const data::Dataset& val, const Notes& notes) {
  const auto train = value_or_throw(
      data::Dataset::open(value_or_throw(training_data(config.data)), {}, data::Dataset::IdCheck::kLater));
  if (!value_or_throw(is_training_set(*train, val))) {
    const int64_t seen = value_or_throw(samples_in_training_set(*train, val));
    if (seen > 0)
      warn(notes,
           concat(human_count(seen), " of the ", human_count(val.size()), " samples of ", val.directory(),
                  " are also in the training set: their metrics say how well the model remembers, not how "
                  "well it will do on new data; give other data to --val"));
    return;
  }
  const std::string pictures = pictures_of(config, kDataOption),
                    val_pictures = pictures_of(config, kValOption);
  warn(notes,
       concat("the validation set is the training set (",
              val_pictures.empty() ? val.directory() : val_pictures,
              "): its metrics say how well the model remembers, not how well it will do on new data; give "
              "other data to --val, or divide these by `dlpipe ingest ",
              pictures.empty() ? "SRC" : shell_word(pictures), " DST --split 0.9,0.1`"));
}

void open_val(const SessionOptions& session, const Notes& notes, SessionData& data) {
  const TrainConfig& config = session.config;
  const std::string directory = value_or_throw(validation_data(config.data, config.val));
  if (session.overfits()) return;
  throw_if_error(check_dataset(kValOption, directory.empty() ? config.data : directory, directory, config));
  if (directory.empty()) {
    check_early_stop(config);
    warn(notes, concat(no_validation_set(config),
                       config.tta == "none" ? "" : "; --tta is kept for eval and predict"));
    return;
  }
  if (session.val_every.unit == Interval::Unit::kNever)
    tell(notes, concat("--val-every never: ", directory, " is not used"));
  pipeline::LoaderOptions options = pipeline::validation_options(loader_options(session));
  options.data = directory;
  options.augment = data.model.val_augment;
  options.channels = static_cast<int>(data.model.arguments.channels);
  options.epochs = 1;
  const ModelFields fields = fields_of(session, directory);
  options.fields = fields.names;
  check_classes_of_pictures(session, directory, fields);
  use_device(session, options);
  data.val = value_or_throw(pipeline::Loader::open(options));
  data.scratch_bytes += static_cast<uint64_t>(data.val->planned_scratch_bytes());
  data.val_id = data.val->dataset().id();
  warn_of_training_set(config, data.val->dataset(), notes);
  throw_if_error(
      check_classes(config.data, data.model.classes, directory, data.val->dataset().classes(), config.data));
}

}  // namespace

uint64_t cache_share(uint64_t cache_bytes, int processes) {
  return cache_bytes == 0 ? 0 : std::max<uint64_t>(cache_bytes / static_cast<uint64_t>(processes), 1);
}

TrainConfig with_data(TrainConfig config, const SessionData& data) {
  config.augment = data.augment;
  config.record.emplace("data-id", data.dataset_id);
  if (data.val != nullptr) config.record.emplace("val-id", data.val_id);
  return config;
}

engine::ScheduleArguments schedule_of(const TrainConfig& config, int64_t batches_per_epoch) {
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
  for (const double epoch : milestones_of(config))
    schedule.milestones.push_back(std::llround(epoch * steps_per_epoch));
  if (config.epochs == 0 || config.max_steps == 0) return schedule;  // on purpose
  if (schedule.total_steps < 1) throw Error(no_steps(config, batches_per_epoch));
  value_or_throw(engine::learning_rate(schedule, 0));
  return schedule;
}

SessionData open_data(const SessionOptions& options, const WeightsSource* init,
                      const std::string& quarantine_file, const Notes& notes) {
  SessionData data;
  open_train(options, init, quarantine_file, notes, data);
  open_val(options, notes, data);
  return data;
}

engine::Tensor first_images(const SessionOptions& session, const SessionData& data) {
  constexpr int64_t kImages = 512;
  pipeline::LoaderOptions options = loader_options(session);
  options.data = value_or_throw(training_data(session.config.data));
  options.augment = data.model.val_augment;
  options.channels = static_cast<int>(data.model.arguments.channels);
  options.limit = session.config.limit;
  options.fields = fields_of(session, options.data).names;
  options.batch = std::min(kImages, data.train_samples);  // the same on all ranks
  options.rank = 0;
  options.world = 1;
  options.grains = 1;
  options.slots = 2;
  const auto loader = value_or_throw(pipeline::Loader::open(options));
  const std::optional<Batch> batch = value_or_throw(loader->next());
  if (!batch) return {};
  engine::Tensor images = batch_input(*batch).pixels;
  throw_if_error(loader->release(*batch));
  return images;
}

std::unique_ptr<BatchSource> first_batch_of(BatchSource& source) {
  const std::optional<Batch> batch = value_or_throw(source.next());
  auto cached = std::make_unique<CachedBatch>(*batch);
  throw_if_error(source.release(*batch));
  return cached;
}

}  // namespace dlpipe::run
