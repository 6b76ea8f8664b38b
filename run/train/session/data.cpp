#include "run/train/session/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/messages.h"
#include "base/names.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/device_code.h"
#include "io/data/sample.h"
#include "run/config/choices.h"
#include "run/config/values.h"
#include "run/input/batch_input.h"
#include "run/input/dataset.h"
#include "run/task/task.h"
#include "run/train/session/linked_data.h"
#include "run/train/session/resume_rules.h"

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
  return value_or_throw(value_named(kDecodeNames, session.config.decode, "train", "--decode"));
}

/// Makes the loader stage batches to the run's device.
void use_device(const SessionOptions& session, pipeline::LoaderOptions& options) {
  options.device = session.device;
  if (!session.is_on_host()) options.coef_decode = engine::device_code(*session.device).decode_coefficients;
  if (decode_of(session) == pipeline::Decode::kHost) options.decode = pipeline::Decode::kHost;
}

Status no_steps(const TrainConfig& config, int64_t batches_per_epoch) {
  return misuse("train", "there is no step to train: --epochs ", config.epochs, " has ",
                counted(batches_per_epoch, "batch", "batches"), " each, but a step needs ", config.accumulate,
                " (--accumulate); give more, or 0 to only save and validate the initial weights");
}

/// The default augmentation. Images of one small size, or of the model's own size, are shifted by up to an eighth of it. Others
/// are cropped at random to the model's size; but small images of several sizes are cropped to about the largest of these if the
/// model has a larger size or none. Colour images are flipped; grey ones, which may be letters, are not. Crops for detectors
/// contain the centre of a box. Crops for pixels with a class each show more of the image, so that objects stay whole. If the
/// targets are numbers, which may be places in the image, images are only resized.
std::string default_augment(const SessionOptions& session, const TaskRecord& task,
                            const data::Dataset& dataset, int channels) {
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
  if (session.model->output == engine::ModelOutput::kBoxes) {
    constexpr int kOfBoxes = 320;  // of a detector that trains on CPUs
    const engine::BoxCoding& boxes = session.model->boxes;
    const std::string size = boxes.height > 0 ? concat(boxes.height, "x", boxes.width)
                             : has_one_size   ? concat(first.height, "x", first.width)
                                              : concat(kOfBoxes, "x", kOfBoxes);
    return concat("ssd_crop resize(", size, ")", flip);
  }
  if (task.targets_may_be_places) {
    const std::string side = std::to_string(own > 0 ? own : kUsual);
    return has_one_size && (own == 0 || is_own || is_small) ? "" : concat("resize(", side, "x", side, ")");
  }
  if (is_own || (is_small && has_one_size))
    return concat("pad_crop(", one_size, ",", std::max(1, std::min(first.width, first.height) / 8), ")",
                  flip);
  const char* const scale = session.model->output == engine::ModelOutput::kPixels ? ",0.25..1)" : ")";
  if (is_small && (own == 0 || own > kSmall))
    return concat("rrc(", (largest + kStep - 1) / kStep * kStep, scale, flip);
  return concat("rrc(",
                own > 0        ? std::to_string(own)
                : has_one_size ? one_size
                               : std::to_string(kUsual),
                scale, flip);
}

/// --augment, or its default if it is not given, which is reported.
std::string augment_of(const SessionOptions& session, const TaskRecord& task, const std::string& directory,
                       int channels, const Notes& notes) {
  const TrainConfig& config = session.config;
  if (config.augment != kAutoAugment) return config.augment;
  const auto dataset = value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  std::string augment = default_augment(session, task, *dataset, channels);
  if (!augment.empty())
    tell(notes, concat("augmentation: ", augment, ", the default for these images and ", config.model,
                       "; change it with --augment \"...\" (\"\": none)"));
  return augment;
}

// Weights keep their normalisation. It becomes part of --augment, so that config.toml has it and a resumed run no longer needs
// the file.
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
                init.state->arguments.channels, " channels, but these have ", channels, "; --channels ",
                init.state->arguments.channels, " decodes them to match"));
    return augment;
  }
  if (known.op.empty()) {
    warn(notes, concat("normalisation: the dataset's own mean and std; ", config.init,
                       " does not record the normalisation of its weights. If you know it, add "
                       "normalize(mean=r:g:b,std=r:g:b) to --augment"));
    return augment;
  }
  tell(notes, concat("normalisation: ", known.op, ", ", known.origin,
                     " (a normalize(...) in --augment overrides it)"));
  return concat(augment, augment.empty() ? "" : " ", known.op);
}

/// The task of the run, and the names of its outputs.
struct BoundTask {
  TaskState state = {};
  std::vector<std::string> names;
};

/// The number of samples of each class; or of boxes, labels or pixels of each class in the field that the task learns.
std::vector<int64_t> counts_of(const data::Dataset& dataset, std::span<const int64_t> samples,
                               const BoundTask& bound, Weighed weighed) {
  const std::vector<std::string>& fields = bound.state.fields;
  if (weighed == Weighed::kPixels) {
    std::vector<int64_t> pixels = count_mask_pixels(dataset, samples, fields.at(0));
    pixels.resize(bound.names.size());
    return pixels;
  }
  const std::string field = weighed == Weighed::kSamples  ? std::string()
                            : weighed == Weighed::kLabels ? fields.at(0)
                                                          : fields.at(1);
  std::vector<int64_t> counts(bound.names.size());
  const auto reader = value_or_throw(dataset.reader());
  for (const int64_t sample : samples) {
    if (field.empty()) {
      const int64_t label = value_or_throw(dataset.header(sample)).label;
      if (label >= 0) ++counts.at(static_cast<size_t>(label));
      continue;
    }
    const auto record = value_or_throw(data::record_without_image(dataset, *reader, sample));
    const auto bytes = value_or_throw(data::field_bytes(dataset, record, field));
    for (size_t at = 0; at + sizeof(int64_t) <= bytes.size(); at += sizeof(int64_t)) {
      int64_t label = 0;
      std::memcpy(&label, bytes.data() + at, sizeof label);
      ++counts.at(static_cast<size_t>(label));
    }
  }
  return counts;
}

/// --class-weights, one per output. "balanced" counts samples, boxes or pixels by class: all / (classes x those of the class), as
/// scikit-learn's compute_class_weight does. For labels it is samples without over samples with the label, as PyTorch advises for
/// pos_weight. A class that does not occur has weight 1.
std::vector<double> class_weights(const std::string& text, const data::Dataset& dataset,
                                  std::span<const int64_t> samples, const BoundTask& bound) {
  if (text.empty()) return {};
  const Weighed weighed = task_of(bound.state).weighed;
  if (weighed == Weighed::kNothing)
    refuse("train", "--class-weights weighs classes, and --task ", bound.state.name,
           " has none; leave it out");
  if (text != "balanced") {
    std::vector<double> weights = value_or_throw(
        class_weights_in("train", "--class-weights", text, "balanced", bound.names, dataset.directory()));
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
      refuse("train", "--class-weights ", text, " leaves no class that counts; give a weight above 0");
    return weights;
  }
  const std::vector<int64_t> counts = counts_of(dataset, samples, bound, weighed);
  const bool counts_parts = weighed == Weighed::kBoxes || weighed == Weighed::kPixels;  // parts of samples
  const auto all =
      static_cast<double>(counts_parts ? std::accumulate(counts.begin(), counts.end(), int64_t{0})
                                       : static_cast<int64_t>(samples.size()));
  std::vector<double> weights;
  for (const int64_t count : counts) {
    const auto own = static_cast<double>(count);
    weights.push_back(own == 0                      ? 1
                      : weighed == Weighed::kLabels ? (all - own) / own
                                                    : all / (static_cast<double>(counts.size()) * own));
  }
  return weights;
}

/// kMisuse unless the model's outputs are what the task learns.
void check_model_learns(const SessionOptions& session, const TaskRecord& task) {
  using engine::ModelOutput;
  if (session.model->output == task.output) return;
  const std::string fitting =
      task.output == ModelOutput::kPixels ? "use unet or unet_small"
      : task.output == ModelOutput::kBoxes
          ? "use detector_small, or one of torchvision's detectors that dlpipe.capture wrote"
          : "use a model for whole images";
  const std::string answers =
      session.model->output == ModelOutput::kPixels  ? "a class for each pixel, which is for --task segment"
      : session.model->output == ModelOutput::kBoxes ? "boxes, which is for --task detect"
                                                     : "one row of numbers for each image";
  refuse("train", session.config.model, " returns ", answers, ", and this run's task is ", task.name, "; ",
         fitting, " (--help models lists all), or give another --task");
}

/// Refuses options that need one row of numbers for each image, if the task has something else.
void check_options_of(const SessionOptions& session, const TaskRecord& task) {
  if (task.output == engine::ModelOutput::kImage) return;
  if (session.eval.views != Views::kOne)
    refuse("train", "--tta averages over one row of numbers for each image, and --task ", task.name,
           " has one for each ", task.output == engine::ModelOutput::kPixels ? "pixel" : "cell of a grid",
           "; leave it out");
  if (session.config.mixup > 0 || session.config.cutmix > 0)
    refuse("train", "--mixup and --cutmix do not mix ",
           task.output == engine::ModelOutput::kPixels ? "masks" : "boxes", "; leave them out");
}

/// The numbers of the training samples: those of the other folds, or of all samples without folds.
std::vector<int64_t> training_samples(const data::Dataset& dataset, const FoldSamples& fold) {
  if (fold.others != nullptr) return *fold.others;
  std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

/// The state of the head that the model begins with, which may be in other units than this data's. nullptr: a fresh head.
const TaskState* task_of_head(const SessionOptions& session, const WeightsSource* init,
                              const ModelState* resumed) {
  if (resumed != nullptr) return &resumed->task;
  return init != nullptr && init->state && !session.config.reset_head ? &init->state->task : nullptr;
}

/// A head's outputs are standardised numbers, so it keeps the mean and the deviation that it was trained with.
void keep_units(const TaskState& of_head, const TrainConfig& config, bool is_resumed, const Notes& notes,
                TaskState& state) {
  if (of_head.name != state.name || of_head.mean.size() != state.mean.size()) return;
  const bool differ = of_head.mean != state.mean || of_head.deviation != state.deviation;
  state.mean = of_head.mean;
  state.deviation = of_head.deviation;
  if (differ && !is_resumed)
    tell(notes, concat("targets: standardised with the mean and deviation of ", config.init,
                       ", whose head is kept (--reset-head uses this data's)"));
}

/// Decides the task if it is "auto", and with it the loss and the metrics in data.config.
BoundTask bind_task(const SessionOptions& session, const std::string& directory, const Notes& notes,
                    const WeightsSource* init, const ModelState* resumed, SessionData& data) {
  const auto dataset = value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  const bool takes_tokens = session.model->input == engine::ModelInput::kTokens;
  const TaskRecord& task = takes_tokens && data.config.task == "auto"
                               ? *value_or_throw(TaskRegistry::builtin().find("classify"))
                               : *value_or_throw(choose_task(data.config, *dataset));
  BoundTask bound;
  if (takes_tokens && std::string_view(task.name) != "classify")
    refuse("train", "--task ", task.name, " is for images; ", session.config.model, " takes tokens");
  check_model_learns(session, task);
  check_options_of(session, task);
  const auto fields = value_or_throw(target_fields(task, *dataset, data.config.target, "train"));
  const std::vector<int64_t> samples = training_samples(*dataset, data.fold);
  bound.state = value_or_throw(task.bind(*dataset, fields, samples, bound.names));
  if (task.output == engine::ModelOutput::kBoxes) bound.state.boxes = session.model->boxes;
  if (const TaskState* of_head = task_of_head(session, init, resumed))
    keep_units(*of_head, session.config, resumed != nullptr, notes, bound.state);
  if (session.config.task == "auto" && std::string_view(task.name) != "classify")
    tell(notes, concat("task: ", task.name, ", of ", bound.state.fields.front(),
                       " (--task and --target choose another)"));
  data.config = value_or_throw(with_task(std::move(data.config), task, session.registries, session.model));
  data.class_weights = class_weights(data.config.class_weights, *dataset, samples, bound);
  if (data.config.class_weights == "balanced" && data.config.sampler == "balanced" &&
      task.weighed == Weighed::kSamples)
    warn(notes,
         "--sampler balanced and --class-weights balanced both compensate for rare classes, so these count "
         "too much; leave one of them out");
  return bound;
}

void check_input(const SessionOptions& session, const pipeline::Loader& loader, const TaskState& task) {
  const data::Dataset& dataset = loader.dataset();
  const bool wants_tokens = session.model->input == engine::ModelInput::kTokens;
  const bool has_input = wants_tokens ? token_field(loader.schema()) != nullptr
                                      : image_field(loader.schema()) != nullptr &&
                                            (!task.fields.empty() || label_field(loader.schema()) != nullptr);
  if (!has_input || (wants_tokens && dataset.classes().empty())) {
    refuse("train", session.config.model, " takes ",
           wants_tokens ? "sequences of tokens" : "images with classes", ", but ", dataset.directory(),
           " has none");
  }
  if (wants_tokens && session.eval.views != Views::kOne)
    refuse("train", "--tta is only for images; ", session.config.model, " takes tokens");
}

/// The description of the model, including its input as the data determine it: the images' size and preparation, or the length of
/// a sequence.
ModelState model_state_of(const SessionOptions& session, const pipeline::Loader& loader,
                          const std::string& train_chain, const BoundTask& bound,
                          const TrainConfig& decided) {
  const TrainConfig& config = session.config;
  const data::Dataset& dataset = loader.dataset();
  ModelState model;
  model.model = config.model;
  model.classes = bound.names;
  model.task = bound.state;
  model.arguments.classes = static_cast<int64_t>(model.classes.size());
  model.arguments.seed = static_cast<uint64_t>(config.seed);
  model.tta = config.tta;
  model.dtype = config.dtype;
  model.loss = decided.loss;
  model.loss_options = evaluation_loss_options(config);
  model.metrics = decided.metrics;
  check_input(session, loader, bound.state);
  if (session.model->input == engine::ModelInput::kTokens) {
    model.arguments.length = token_field(loader.schema())->shape[0] - 1;
    return model;
  }
  const Shape& image = image_field(loader.schema())->shape;
  model.arguments.height = image[0];
  model.arguments.width = image[1];
  model.arguments.channels = image[2];
  const TaskRecord& task = task_of(bound.state);
  const bool whole = config.val_augment.empty() &&
                     (task.output != engine::ModelOutput::kImage || task.targets_may_be_places);
  model.val_augment = value_or_throw(validation_chain(
      whole ? concat("resize(", image[0], "x", image[1], ")") : config.val_augment, train_chain, image,
      dataset.pixel_stats().of_channels(static_cast<int>(image[2])), session.registries.augmentations));
  return model;
}

/// For --cache coefficients. Processes of a run read different images every epoch, so each has a separate cache.
std::string cache_of(const std::string& run_directory, int rank) {
  return concat(run_directory, "/cache", rank > 0 ? concat("-", rank) : "");
}

/// Channels of the images, 0 for tokens.
int channels_of(const TrainConfig& config, const std::string& directory) {
  const int own = value_or_throw(image_channels(directory));
  if (config.channels == 0) return own;
  if (own == 0)
    refuse("train", "--channels ", config.channels, ", but ", directory, " has no images; leave it out");
  return static_cast<int>(config.channels);
}

/// The options of the training loader, all but its augmentation.
pipeline::LoaderOptions train_options(const SessionOptions& session, const std::string& quarantine_file) {
  const TrainConfig& config = session.config;
  pipeline::LoaderOptions options = loader_options(session);
  options.data = value_or_throw(training_data(config.data));
  options.channels = channels_of(config, options.data);
  options.limit = config.limit;
  options.sampler = config.sampler;
  options.hash_pixels = value_or_throw(parse_receipt(config.receipt));
  options.quarantine_file = quarantine_file;
  if (session.overfits()) return options;
  if (value_or_throw(parse_cache(config.cache))) {
    options.cache = cache_of(config.out, session.ranks.rank());
    options.cache_bytes = cache_share(session.cache_bytes, session.ranks.world());
  }
  options.mixup = config.mixup;
  options.cutmix = config.cutmix;
  options.mixes_fields = true;
  use_device(session, options);
  options.decode = decode_of(session);
  if (config.max_steps < 0) options.epochs = std::max<int64_t>(1, std::llround(std::ceil(config.epochs)));
  return options;
}

ModelFields fields_of(const SessionOptions& session, const std::string& dataset, const TaskState& task) {
  return value_or_throw(
      model_fields(dataset, session.model->input == engine::ModelInput::kTokens, task.fields));
}

/// Called before a loader is opened, so that unusable data is reported before problems with a batch or a chain.
void check_classes_of_images(const SessionOptions& session, const std::string& directory,
                             const ModelFields& fields, const TaskState& task) {
  if (session.model->input == engine::ModelInput::kTokens || !task.fields.empty()) return;
  const auto dataset = value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  throw_if_error(check_samples_have_classes("train", *dataset, fields.unused));
}

void open_train(const SessionOptions& session, const WeightsSource* init, const ModelState* resumed,
                const std::string& quarantine_file, const Notes& notes, SessionData& data) {
  const TrainConfig& config = session.config;
  pipeline::LoaderOptions options = train_options(session, quarantine_file);
  // This comes before any other check of the data: another dataset would be the reason if the others fail.
  throw_if_error(check_dataset(kDataOption, config.data, options.data, config));
  throw_if_error(check_input_kind(config.model, session.model->input == engine::ModelInput::kTokens,
                                  options.data, options.channels));
  if (!config.fold.empty()) {
    const auto dataset =
        value_or_throw(data::Dataset::open(options.data, {}, data::Dataset::IdCheck::kLater));
    data.fold = value_or_throw(samples_of_fold(*dataset, config.fold, "train"));
    options.samples = data.fold.others;
    tell(notes,
         concat(data.fold.name, ": ", counted(static_cast<int64_t>(data.fold.others->size()), "sample"),
                " of other folds to train on, ", human_count(static_cast<int64_t>(data.fold.own->size())),
                " to validate on"));
  }
  const BoundTask bound = bind_task(session, options.data, notes, init, resumed, data);
  const std::string augment =
      augment_of(session, task_of(bound.state), options.data, options.channels, notes);
  data.augment =
      init != nullptr ? with_normalization_of(*init, augment, options.channels, session, notes) : augment;
  options.augment = options.channels == 0
                        ? data.augment
                        : value_or_throw(training_chain(data.augment, session.registries.augmentations));
  const ModelFields fields = fields_of(session, options.data, bound.state);
  options.fields = fields.names;
  if (task_of(bound.state).output == engine::ModelOutput::kPixels) options.mask_fill = TargetSpec::kIgnored;
  check_classes_of_images(session, options.data, fields, bound.state);
  auto loader = value_or_throw(pipeline::Loader::open(options));
  if (!loader->decode_reason().empty())
    tell(notes, concat("images are decoded on the host: ", loader->decode_reason()));
  const data::Dataset& dataset = loader->dataset();
  data.model = model_state_of(session, *loader, options.augment, bound, data.config);
  if (!fields.unused.empty())
    tell(notes, concat(config.model, " does not use ", fields.unused, " of ", options.data));
  data.dataset_id = dataset.id();
  data.pipeline_id = loader->pipeline_id();
  data.subset = loader->subset();
  const int64_t all =
      data.fold.others != nullptr ? static_cast<int64_t>(data.fold.others->size()) : dataset.size();
  const int64_t samples = config.limit < 0 ? all : std::min(config.limit, all);
  data.train_samples = loader->batches_per_epoch() * config.batch;
  data.left_out = session.overfits() ? 0 : samples - data.train_samples;
  if (config.limit >= 0 && samples < all)
    tell(notes, concat("--limit: training uses ", human_count(samples), " of ", human_count(all), " samples",
                       data.fold.others != nullptr ? " of the other folds" : "", ", by seed ", config.seed));
  data.schedule = schedule_of(config, loader->batches_per_epoch());
  data.scratch_bytes += static_cast<uint64_t>(loader->planned_scratch_bytes());
  data.train = std::move(loader);
}

/// The place of the images that the run has linked; "" if `option` is a dataset.
std::string images_of(const TrainConfig& config, const PathOption& option) {
  const auto found = config.record.find(images_key(option));
  return found == config.record.end() ? "" : found->second;
}

/// The message if --val is not given and no split of the data can be used for validation.
std::string no_validation_set(const TrainConfig& config) {
  const std::string images = images_of(config, kDataOption);
  const std::string text = concat("no validation set: --val is not given, and ",
                                  images.empty() ? config.data : images, " has no split val");
  const std::vector<std::string> names = value_or_throw(data::split_names(config.data));
  const auto other = std::ranges::find_if(names, [](const std::string& name) { return name != "train"; });
  std::string path;
  if (other != names.end())
    path = images.empty() ? concat(config.data, "/", *other) : folder_of_split(images, *other);
  if (!path.empty()) return concat(text, "; --val ", shell_word(path), " uses ", *other);
  return concat(text, images.empty() ? "" : "; give --val images or a dataset");
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

/// Whether `val` is the training set: the same dataset, or one with as many samples, where some that are compared have the same
/// labels, names and pixels (one may be a folder of the files that the other was made from). Names alone are not enough, because
/// many published datasets number the images of each split from 1.
Result<bool> is_training_set(const data::Dataset& train, const data::Dataset& val) {
  if (train.id() == val.id()) return true;
  if (train.size() != val.size() || train.size() == 0) return false;
  constexpr int64_t kLooks = 32;
  DLPIPE_ASSIGN_OR_RETURN(const auto train_reader, train.reader());
  DLPIPE_ASSIGN_OR_RETURN(const auto val_reader, val.reader());
  DLPIPE_ASSIGN_OR_RETURN(const auto train_images, data::SampleReader::open(train));
  DLPIPE_ASSIGN_OR_RETURN(const auto val_images, data::SampleReader::open(val));
  bool has_compared = false;
  for (int64_t look = 0; look < std::min(kLooks, train.size()); ++look) {
    const int64_t sample =
        look * (train.size() - 1) / std::max<int64_t>(1, std::min(kLooks, train.size()) - 1);
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader in_train, train.header(sample));
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader in_val, val.header(sample));
    if (in_train.label != in_val.label || in_train.width != in_val.width || in_train.height != in_val.height)
      return false;
    DLPIPE_ASSIGN_OR_RETURN(const auto train_record,
                            data::record_without_image(train, *train_reader, sample));
    const auto train_path = data::field_bytes(train, train_record, "path");
    DLPIPE_ASSIGN_OR_RETURN(const auto val_record, data::record_without_image(val, *val_reader, sample));
    const auto val_path = data::field_bytes(val, val_record, "path");
    if (!train_path.ok() || !val_path.ok() || train_path->empty()) return false;
    if (!std::equal(train_path->begin(), train_path->end(), val_path->begin(), val_path->end())) return false;
    const auto train_pixels = pixels_of(*train_images, sample);
    const auto val_pixels = pixels_of(*val_images, sample);
    if (!train_pixels.ok() || !val_pixels.ok()) continue;  // the loaders replace this sample
    if (*train_pixels != *val_pixels) return false;
    has_compared = true;
  }
  return has_compared;
}

/// How many samples of `val` are also in `train`, with the same image, label and name, by the checksums of their records. 0 for
/// late checksums, where rows only cover the beginning of files, and for very large datasets.
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
           concat(human_count(seen), " of the ", counted(val.size(), "sample"), " of ", val.directory(),
                  " are also in the training set: metrics on them do not show how well the model does on new "
                  "data; give --val other data"));
    return;
  }
  const std::string images = images_of(config, kDataOption), val_images = images_of(config, kValOption);
  warn(notes,
       concat("the validation set is the training set (", val_images.empty() ? val.directory() : val_images,
              "): its metrics do not show how well the model does on new data; give --val other data, or "
              "split the data with `dlpipe ingest ",
              images.empty() ? "SRC" : shell_word(images), " DST --split 0.9,0.1`"));
}

/// Reports how a given --val-augment differs from training.
void look_at_chain(const SessionOptions& session, const Notes& notes, const SessionData& data) {
  const FieldSpec* const image = image_field(data.val->schema());
  if (image == nullptr) return;
  const auto chain =
      value_or_throw(augment::Chain::parse(session.config.val_augment, session.registries.augmentations));
  if (const std::string random = random_chain_warning(chain, session.config.val_augment); !random.empty())
    warn(notes, random);
  const int64_t height = seen_extent(image->shape[0], session.eval.views);
  const int64_t width = seen_extent(image->shape[1], session.eval.views);
  const engine::ModelArguments& trained = data.model.arguments;
  if (height != trained.height || width != trained.width)
    tell(notes, concat("--val-augment makes images of ", height, "x", width,
                       ", but the model is trained with ", trained.height, "x", trained.width));
}

void open_val(const SessionOptions& session, const Notes& notes, SessionData& data) {
  const TrainConfig& config = session.config;
  const bool has_fold = data.fold.own != nullptr;
  if (has_fold && !config.val.empty())
    refuse("train", "--fold ", config.fold, " validates on this fold of --data; leave --val out");
  const std::string directory =
      value_or_throw(has_fold ? training_data(config.data) : validation_data(config.data, config.val));
  if (session.overfits()) return;
  throw_if_error(check_dataset(kValOption, directory.empty() ? config.data : directory, directory, config));
  if (directory.empty()) {
    check_early_stop(config);
    warn(notes, concat(no_validation_set(config),
                       config.tta == "none" ? "" : "; --tta is stored for eval and predict"));
    return;
  }
  if (session.val_every.unit == Interval::Unit::kNever)
    tell(notes, concat("--val-every never: ", directory, " is not used"));
  pipeline::LoaderOptions options = pipeline::validation_options(loader_options(session));
  options.data = directory;
  options.augment = data.model.val_augment;
  options.channels = static_cast<int>(data.model.arguments.channels);
  options.epochs = 1;
  options.samples = data.fold.own;
  const TaskState& task = data.model.task;
  const ModelFields fields = fields_of(session, directory, task);
  options.fields = fields.names;
  if (task_of(task).output == engine::ModelOutput::kPixels) options.mask_fill = TargetSpec::kIgnored;
  check_classes_of_images(session, directory, fields, task);
  if (!task.fields.empty())
    throw_if_error(check_fields(
        task, *value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater)), "train"));
  use_device(session, options);
  data.val = value_or_throw(pipeline::Loader::open(options));
  if (!config.val_augment.empty()) look_at_chain(session, notes, data);
  data.scratch_bytes += static_cast<uint64_t>(data.val->planned_scratch_bytes());
  data.val_id = data.val->dataset().id();
  if (!has_fold) warn_of_training_set(config, data.val->dataset(), notes);
  if (task_of(task).names_classes)
    throw_if_error(check_classes(config.data, data.model.classes, directory, data.val->dataset().classes(),
                                 config.data));
}

}  // namespace

uint64_t cache_share(uint64_t cache_bytes, int processes) {
  return cache_bytes == 0 ? 0 : std::max<uint64_t>(cache_bytes / static_cast<uint64_t>(processes), 1);
}

SessionOptions with_data(SessionOptions options, const SessionData& data) {
  TrainConfig& config = options.config;
  config = data.config;
  config.augment = data.augment;
  config.record.emplace("data-id", data.dataset_id);
  if (data.val != nullptr) config.record.emplace("val-id", data.val_id);
  set_task(options, data.model.task, static_cast<int64_t>(data.model.classes.size()), data.class_weights);
  return options;
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
  if (config.epochs == 0 || config.max_steps == 0) return schedule;  // no step, on purpose
  if (schedule.total_steps < 1) throw Error(no_steps(config, batches_per_epoch));
  value_or_throw(engine::learning_rate(schedule, 0));
  return schedule;
}

SessionData open_data(const SessionOptions& options, const WeightsSource* init,
                      const std::string& quarantine_file, const Notes& notes, const ModelState* resumed) {
  SessionData data;
  data.config = options.config;
  open_train(options, init, resumed, quarantine_file, notes, data);
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
  options.samples = data.fold.others;
  options.fields = fields_of(session, options.data, data.model.task).names;
  options.batch = std::min(kImages, data.train_samples);  // the same on all ranks
  options.rank = 0;
  options.world = 1;
  options.grains = 1;
  options.slots = 2;
  const auto loader = value_or_throw(pipeline::Loader::open(options));
  const std::optional<Batch> batch = value_or_throw(loader->next());
  if (!batch) return {};
  engine::Tensor images = batch_input(*batch, cpu_device(), session.step.target).pixels;
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
