#include "run/use/loaded_model.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/log.h"
#include "dlpipe/module.h"
#include "engine/core/device_code.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "engine/models/graph_module.h"
#include "io/data/sources/source_file.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "io/formats/weights_file.h"
#include "run/config/values.h"
#include "run/input/dataset.h"
#include "run/input/path_kind.h"
#include "run/record/checkpoint.h"
#include "run/record/kernels.h"
#include "run/task/task.h"
#include "run/use/evaluate.h"
#include "run/use/graph_model.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using engine::NamedShape;
using engine::NamedTensor;

namespace {

struct Wrapper {
  std::string_view prefix;
  std::string_view made_by;
  bool is_attribute = false;  // an attribute of a user's class; a model's own names may begin like this
};
constexpr std::array<Wrapper, 4> kWrappers = {
    {{"module.", "torch.nn.DataParallel"},
     {"_orig_mod.", "torch.compile"},
     {"model.", "a LightningModule with the network as self.model", true},
     {"net.", "a LightningModule with the network as self.net", true}}};

const Wrapper* wrapper_of_all(const std::vector<NamedShape>& shapes, bool with_attributes) {
  for (const Wrapper& wrapper : kWrappers) {
    if (wrapper.is_attribute && !with_attributes) continue;
    const bool all = std::all_of(shapes.begin(), shapes.end(), [&](const NamedShape& tensor) {
      return tensor.name.starts_with(wrapper.prefix);
    });
    if (all && !shapes.empty()) return &wrapper;
  }
  return nullptr;
}

// Removes the wrappers' prefixes. There may be several, in any order. Attributes are not removed from files that record their
// model, because these have that model's own names.
void leave_out_prefixes(WeightsSource& source) {
  while (const Wrapper* wrapper = wrapper_of_all(source.shapes, !source.state)) {
    for (NamedShape& tensor : source.shapes) tensor.name.erase(0, wrapper->prefix.size());
    source.prefix += wrapper->prefix;
    source.notes.push_back(concat("the names in ", source.path, " begin with '", wrapper->prefix, "', which ",
                                  wrapper->made_by, " adds; it is removed"));
  }
}

constexpr const char *kStateKey = "dlpipe", *kGraphKey = "dlpipe_captured";

WeightsSource open_file(const std::string& path) {
  WeightsSource source;
  source.path = path;
  source.step = -1;
  source.shapes = value_or_throw(list_tensors(path));
  if (const std::string part = value_or_throw(formats::WeightsFile::open(path)).part(); !part.empty())
    source.notes.push_back(concat("from ", path, ", only '", part, "' is used"));
  const auto metadata = value_or_throw(read_metadata(path));
  if (const auto found = metadata.find(kStateKey); found != metadata.end()) {
    const std::string what = concat("the metadata of ", path);
    const auto json = formats::Json::parse(found->second);
    if (!json.ok()) throw Error(json.status().with_context(concat("[weights] ", what, ": ")));
    source.state = value_or_throw(model_state_from_json(*json, what));
  }
  source.is_of_graph = metadata.contains(kGraphKey);
  leave_out_prefixes(source);
  return source;
}

WeightsSource open_checkpoint(const std::string& directory, bool averaged) {
  Checkpoint checkpoint = value_or_throw(load_checkpoint(directory, false));
  WeightsSource source;
  source.path = directory;
  source.state = std::move(checkpoint.state.model);
  source.step = checkpoint.state.trainer.step;
  source.graph = graph_of(*source.state, checkpoint.tensors.model, directory);
  source.checkpoint_tensors = averaged && !checkpoint.tensors.ema.empty()
                                  ? std::move(checkpoint.tensors.ema)
                                  : std::move(checkpoint.tensors.model);
  for (const NamedTensor& tensor : source.checkpoint_tensors) {
    source.shapes.push_back({tensor.name, tensor.tensor.shape()});
  }
  return source;
}

bool is_under(std::string_view name, std::string_view head) {
  return !head.empty() && name.starts_with(head);
}

/// The heights and widths to try: the model's own, or those of MNIST and CIFAR for a model that accepts any size.
std::vector<int64_t> sizes_of(const engine::ModelRecord& record) {
  return record.default_size > 0 ? std::vector<int64_t>{record.default_size} : std::vector<int64_t>{28, 32};
}

}  // namespace

std::map<std::string, std::string> weights_metadata(const ModelState& state) {
  if (!state.graph.empty()) {
    ModelState alone = state;
    alone.graph.clear();
    return {{kGraphKey, to_json(alone).dump()}};
  }
  return {{kStateKey, to_json(state).dump()}};
}

std::vector<NamedTensor> published_tensors(const ModelState& state, const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> published = tensors;
  std::erase_if(published,
                [](const NamedTensor& one) { return one.name.starts_with(engine::graph::kLiteralPrefix); });
  if (state.graph.empty()) return published;
  const formats::Json graph = value_or_throw(formats::Json::parse(state.graph));
  if (!graph["aliases"].is_object()) return published;
  for (const auto& [alias, name] : graph["aliases"].members()) {
    const auto tied = std::ranges::find(tensors, name.as_string(), &NamedTensor::name);
    if (tied != tensors.end()) published.push_back({alias, tied->tensor});
  }
  return published;
}

WeightsSource open_weights(const std::string& path) {
  throw_if_error(refuse_other_kind("weights", path, Wanted::kModel));
  if (!fs::is_regular_file(path)) return open_checkpoint(value_or_throw(find_checkpoint(path)), true);
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  const std::string name = fs::path(path).filename().string();
  const std::string state_file = (folder / "state.json").string();
  if (!fs::exists(state_file)) return open_file(path);
  if (name == "state.json" || name == "model.safetensors" || name == "ema.safetensors")
    return open_checkpoint(folder.string(), name != "model.safetensors");
  WeightsSource source = open_file(path);
  const formats::Json state = value_or_throw(formats::read_json(state_file));
  throw_if_error(check_checksum(state, state_file, "move the weights away from it"));
  CheckpointState checkpoint = value_or_throw(checkpoint_state_from_json(state, state_file));
  source.state = std::move(checkpoint.model);
  source.step = checkpoint.trainer.step;
  return source;
}

std::optional<engine::ModelArguments> arguments_from(std::span<const NamedShape> shapes,
                                                     const engine::ModelRecord& record) {
  const std::string classifier = concat(record.head, "weight");
  engine::ModelArguments arguments;
  arguments.classes = 0;
  int64_t least = 5;
  for (const NamedShape& tensor : shapes) {
    if (tensor.name == classifier && tensor.shape.rank() == 2) arguments.classes = tensor.shape[0];
    if (tensor.shape.rank() == 4) least = std::min(least, tensor.shape[1]);
  }
  if (arguments.classes < 1) return std::nullopt;
  if (least >= 1 && least <= 4) arguments.channels = least;
  return arguments;
}

std::string fitting_model(std::span<const NamedShape> shapes, const Registries& registries) {
  const engine::LeaveUninitialized names_are_enough(true);
  const std::vector<NamedShape> state(shapes.begin(), shapes.end());
  for (const engine::ModelRecord* record : registries.models.records()) {
    std::optional<engine::ModelArguments> arguments = arguments_from(shapes, *record);
    if (record->input != engine::ModelInput::kImages || !arguments) continue;
    for (const int64_t size : sizes_of(*record)) {
      arguments->height = arguments->width = size;
      if (record->build(*arguments)->state_differences(state).empty()) return record->name;
    }
  }
  return {};
}

std::string without_model(const WeightsSource& source, const Registries& registries) {
  if (source.is_of_graph)
    return concat(source.path,
                  " holds only the weights of a captured model, for PyTorch's load_state_dict; give the run "
                  "or the checkpoint that they come from, or, to train from them, also --model FILE.dlm");
  const std::string fits = fitting_model(source.shapes, registries);
  return concat(source.path, " holds only tensors and does not record their model; ",
                fits.empty() ? std::string("give --model NAME (`dlpipe train --help models`)")
                             : concat("they fit --model ", fits));
}

namespace {

/// Whether the source has the model's classifier in another shape.
bool has_other_head(const WeightsSource& source, const engine::ModelRecord& record,
                    const engine::Module& model) {
  const std::vector<NamedTensor> all = model.state_dict();
  return std::any_of(all.begin(), all.end(), [&](const NamedTensor& own) {
    return is_under(own.name, record.head) &&
           std::any_of(source.shapes.begin(), source.shapes.end(), [&](const NamedShape& given) {
             return given.name == own.name && given.shape != own.tensor.shape();
           });
  });
}

/// Whether other weights need not have this tensor: it is under `head`, or a number in the code of a captured model.
bool is_its_own(std::string_view name, std::string_view head) {
  return is_under(name, head) || name.starts_with(engine::graph::kLiteralPrefix);
}

/// The shapes that `model` would load: those of the source, except under a non-empty `head`, and the model's own for tensors that
/// the source need not have.
std::vector<NamedShape> given_shapes(const WeightsSource& source, const engine::Module& model,
                                     std::string_view head) {
  std::vector<NamedShape> given;
  for (const NamedShape& tensor : source.shapes) {
    if (!is_under(tensor.name, head)) given.push_back(tensor);
  }
  for (const NamedTensor& own : model.state_dict()) {
    const bool is_there = std::ranges::find(given, own.name, &NamedShape::name) != given.end();
    if (!is_there && is_its_own(own.name, head)) given.push_back({own.name, own.tensor.shape()});
  }
  return given;
}

/// How the source's weights differ from those of `model`, if they are of the same kind of model.
std::string difference_of_arguments(const WeightsSource& source, const engine::ModelRecord& record,
                                    const engine::Module& model, const engine::ModelArguments& arguments) {
  const auto image = [](const engine::ModelArguments& a) {
    return concat(a.height, "x", a.width, "x", a.channels);
  };
  if (source.state && image(source.state->arguments) != image(arguments))
    return concat(" for images of ", image(source.state->arguments), ", got ", image(arguments));
  if (model.state_differences(given_shapes(source, model, record.head)).empty()) return " with other classes";
  return " with other channels or for another image size";
}

/// Why the source's tensors do not fit `model`; parameters under a non-empty `head` are ignored.
Status check_weights(const WeightsSource& source, const engine::ModelRecord& record, std::string_view head,
                     const engine::Module& model, const engine::ModelArguments& arguments,
                     const Registries& registries, std::string_view head_advice) {
  const std::string differences = model.state_differences(given_shapes(source, model, head));
  if (differences.empty()) return {};
  const std::string fits = source.graph   ? record.name
                           : source.state ? source.state->model
                                          : fitting_model(source.shapes, registries);
  std::string advice = "; give the model that they were trained with";
  if (fits == record.name) {
    advice =
        concat("; they belong to the same model", difference_of_arguments(source, record, model, arguments));
    if (head.empty() && has_other_head(source, record, model)) advice += head_advice;
  } else if (!fits.empty()) {
    advice = concat("; they fit --model ", fits);
  }
  return misuse("weights", "the tensors of ", source.path, " do not fit this ", record.name, "; ",
                differences, advice);
}

}  // namespace

void copy_weights(const WeightsSource& source, const engine::ModelRecord& record, bool keep_head,
                  engine::Module& model, const engine::ModelArguments& arguments,
                  const Registries& registries, std::string_view head_advice) {
  const std::string_view head = keep_head ? record.head : "";
  throw_if_error(check_weights(source, record, head, model, arguments, registries, head_advice));
  std::vector<NamedTensor> weights = source.checkpoint_tensors;
  if (weights.empty()) {
    weights = value_or_throw(load_tensors(source.path));
    for (NamedTensor& tensor : weights) tensor.name.erase(0, source.prefix.size());
  }
  std::erase_if(weights, [&](const NamedTensor& tensor) { return is_under(tensor.name, head); });
  for (const NamedTensor& own : model.state_dict()) {
    const bool is_there = std::ranges::find(weights, own.name, &NamedTensor::name) != weights.end();
    if (!is_there && is_its_own(own.name, head)) weights.push_back(own);
  }
  model.load_state_dict(weights);
}

WeightsNormalization normalization_of(const WeightsSource& source, const engine::ModelRecord& record,
                                      int64_t channels, const augment::OpRegistry& registry) {
  if (source.state) {
    if (source.state->arguments.channels != channels || source.state->val_augment.empty()) return {};
    return {value_or_throw(normalization_in(source.state->val_augment, channels, registry)),
            source.step < 0 ? concat("as recorded in ", source.path)
                            : concat("the checkpoint's, of ", source.path)};
  }
  if (record.published == nullptr || channels != 3) return {};
  if (std::string_view(record.published->publisher).empty())
    return {record.published->normalize, "as the captured model records"};
  return {record.published->normalize,
          concat(record.published->publisher, "'s constants, because the names in ", source.path, " are ",
                 record.published->publisher, "'s")};
}

std::string default_cut(const engine::ModelRecord& record, const data::Dataset* dataset) {
  const int64_t size = record.default_size;
  if (size > 0) {
    const int64_t shorter = record.published != nullptr ? record.published->resize : size;
    return concat("resize(", shorter, ") center_crop(", size, ")");
  }
  if (dataset == nullptr || dataset->size() == 0) {
    refuse("weights", record.name,
           " accepts images of any size, and its weights do not record which; give --val-augment "
           "\"resize(HxW)\"");
  }
  const data::RecordHeader first = value_or_throw(dataset->header(0));
  return concat("resize(", first.height, "x", first.width, ")");
}

namespace {

// A name on each line; a last line without a newline counts.
std::vector<std::string> read_names(const std::string& path) {
  constexpr uint64_t kMostBytes = 64 << 20;
  const std::string text = value_or_throw(formats::read_file(path, kMostBytes));
  std::vector<std::string> names = split(data::without_mark(text), '\n');
  if (!names.empty() && names.back().empty()) names.pop_back();
  for (std::string& name : names) name = std::string(trim(name));
  return names;
}

std::vector<std::string> names_of(const std::string& from) {
  if (!std::filesystem::is_directory(from)) return read_names(from);
  const auto dataset = value_or_throw(data::Dataset::open(value_or_throw(training_data(from))));
  return {dataset->classes().begin(), dataset->classes().end()};
}

}  // namespace

std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> class_names(const std::string& from, const std::string& weights,
                                     const std::string& counted_by, int64_t count,
                                     std::vector<std::string>& notes) {
  std::vector<std::string> names;
  if (from.empty()) {
    names = numbered_classes(count);
    notes.push_back(
        concat(weights, " has no class names, so classes are numbers; name them with --classes FILE"));
    return names;
  }
  names = names_of(from);
  if (static_cast<int64_t>(names.size()) == count) return names;
  refuse("classes", weights, " has ", counted(count, "class", "classes"), " (", counted_by, "), but ", from,
         " has ", human_count(static_cast<int64_t>(names.size())), ": ", quoted_names(names),
         "; give the classes that it was trained on with --classes");
}

namespace {

// Uses the kernels of the run if the checkpoint is still in its directory, so that evaluation reproduces the validation's numbers
// to the last bit.
void take_kernels_of_run(const std::string& checkpoint) {
  fs::path path = fs::absolute(checkpoint).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "RUN/checkpoints/best/"
  const fs::path file = path.parent_path().parent_path() / "kernels.json";
  if (!fs::exists(file)) return;
  const Status status = load_kernels(file.string());
  if (!status.ok()) log(LogLevel::kWarning, concat(status.message(), "; ", file.string(), " is not used"));
}

std::vector<std::string> names_of_classes(const ModelOptions& options, const std::string& path,
                                          const data::Dataset* dataset, const std::string& counted_by,
                                          int64_t count, std::vector<std::string>& notes) {
  std::string from = options.classes;
  if (from.empty() && dataset != nullptr) from = dataset->directory();
  return class_names(from, path, counted_by, count, notes);
}

// Information missing in a bare file, gathered from the options, the shapes, the dataset and the model's record.
class BareModel {
 public:
  BareModel(const ModelOptions& options, const WeightsSource& source, const Registries& registries,
            const data::Dataset* dataset)
      : options_(options), source_(source), registries_(registries), dataset_(dataset) {}

  ModelState state() {
    find_record();
    const auto arguments = arguments_from(source_.shapes, *record_);
    if (!arguments) {
      const std::string fits = fitting_model(source_.shapes, registries_);
      refuse("weights", source_.path, " has no ", record_->head, "weight, which ", record_->name,
             " ends with", fits.empty() ? "" : concat("; its tensors fit --model ", fits));
    }
    state_.model = record_->name;
    state_.arguments = *arguments;
    state_.loss = "cross_entropy";
    state_.metrics = {"top1", "top5"};
    take_classes();
    return state_;
  }
  const engine::ModelRecord& record() const { return *record_; }
  std::vector<std::string> notes;

 private:
  void find_record() {
    if (options_.model.empty()) refuse("weights", without_model(source_, registries_));
    record_ = value_or_throw(registries_.models.find(options_.model));
    if (record_->input == engine::ModelInput::kImages) return;
    refuse("weights", record_->name, " takes tokens, but ", source_.path,
           " does not record what they mean; give the checkpoint or the run that it comes from");
  }

  void take_classes() {
    state_.classes = names_of_classes(options_, source_.path, dataset_, concat(record_->head, "weight"),
                                      state_.arguments.classes, notes);
  }

  const ModelOptions& options_;
  const WeightsSource& source_;
  const Registries& registries_;
  const data::Dataset* dataset_;
  const engine::ModelRecord* record_ = nullptr;
  ModelState state_;
};

// Sets the whole chain, including the numbers of its normalisation.
void take_chain(const ModelOptions& options, const WeightsSource& source, const engine::ModelRecord& record,
                const Registries& registries, const data::Dataset* dataset, ModelState& state,
                std::vector<std::string>& notes) {
  const augment::OpRegistry& ops = registries.augmentations;
  if (source.state && options.val_augment.empty()) return;
  std::string chain = options.val_augment.empty() ? default_cut(record, dataset) : options.val_augment;
  std::string origin = "as given";
  if (!value_or_throw(augment::Chain::parse(chain, ops)).contains("normalize")) {
    WeightsNormalization found = normalization_of(source, record, state.arguments.channels, ops);
    if (found.op.empty() && dataset != nullptr) {
      const data::PixelStats stats =
          dataset->pixel_stats().of_channels(static_cast<int>(state.arguments.channels));
      found = {value_or_throw(normalization_in("normalize", state.arguments.channels, ops,
                                               {stats.channels, stats.mean, stats.std})),
               concat("the dataset's, because ", source.path, " does not record one")};
    }
    if (found.op.empty()) {
      refuse("weights", source.path, " does not record how its images are normalised; give --val-augment \"",
             chain, " normalize(mean=r:g:b,std=r:g:b)\"");
    }
    chain += " " + found.op;
    origin = found.origin;
  }
  const augment::ImageSize size =
      value_or_throw(value_or_throw(augment::Chain::parse(chain, ops))
                         .output({0, 0, static_cast<int>(state.arguments.channels)}));
  state.val_augment = chain;
  const Views views = value_or_throw(parse_views(state.tta));
  const int64_t height = seen_extent(size.height, views), width = seen_extent(size.width, views);
  if (source.state && (height != state.arguments.height || width != state.arguments.width)) {
    notes.push_back(concat("--val-augment makes images of ", height, "x", width,
                           ", but the model was trained with ", state.arguments.height, "x",
                           state.arguments.width));
  }
  state.arguments.height = height;
  state.arguments.width = width;
  notes.push_back(concat("images are prepared by ", chain, "; the normalisation is ", origin));
}

}  // namespace

std::string random_chain_warning(const augment::Chain& chain, std::string_view chain_text) {
  const augment::OpRecord* const op = chain.find_random();
  if (op == nullptr) return "";
  return concat("--val-augment \"", chain_text, "\": ", op->name,
                " is random, so results vary; use resize(SIZE) center_crop(SIZE), which are "
                "deterministic");
}

ModelState state_of_images(const engine::graph::Graph& graph, const ModelOptions& options,
                           const Registries& registries, const data::Dataset* dataset,
                           std::vector<std::string>& notes) {
  const engine::ImageGraph images = engine::image_graph(graph);
  if (const engine::graph::Value& y = graph.value(graph.outputs[0]); y.shape.rank() != 2)
    refuse("weights", options.weights, " returns ", y.type_text(),
           " and does not record its task, so it isn't known what they mean; an image classifier returns "
           "f32 [N,classes], and dlpipe run prints any outputs");
  ModelState state;
  state.model = graph.name;
  state.arguments.classes = images.classes;
  state.arguments.channels = images.channels;
  state.loss = "cross_entropy";
  state.metrics = {"top1", "top5"};
  state.classes = names_of_classes(options, options.weights, dataset, "its output", images.classes, notes);
  WeightsSource source;
  source.path = options.weights;
  engine::ModelRecord record{};
  record.name = state.model.c_str();
  record.default_size = images.height == images.width ? images.height : 0;
  if (!options.tta.empty()) state.tta = options.tta;
  take_chain(options, source, record, registries, dataset, state, notes);
  if (state.arguments.height != images.height || state.arguments.width != images.width)
    refuse("weights", options.weights, " takes images of ", images.height, "x", images.width,
           ", but --val-augment \"", state.val_augment, "\"",
           state.tta == "none" ? "" : concat(" with --tta ", state.tta), " makes ", state.arguments.height,
           "x", state.arguments.width);
  return state;
}

static LoadedModel load_file(const ModelOptions& options, const Registries& registries,
                             const data::Dataset* dataset, BareFiles bare_files) {
  if (engine::graph::is_graph_file(options.weights)) return load_graph_model(options, registries);
  if (bare_files == BareFiles::kTaken && is_onnx_file(options.weights))
    return load_onnx_model(options, registries, dataset);
  const WeightsSource source = open_weights(options.weights);
  if (!source.state && bare_files == BareFiles::kRefused) {
    refuse("weights", source.path,
           " holds only tensors; give the checkpoint or the run that it comes "
           "from, which records what tokens mean");
  }
  LoadedModel loaded;
  loaded.path = source.path;
  loaded.notes = source.notes;
  if (source.state) {
    loaded.state = *source.state;
    loaded.step = source.step;
    const bool is_checkpoint = source.step >= 0;
    if (is_checkpoint) take_kernels_of_run(loaded.path);
    if (!options.model.empty() && options.model != loaded.state.model) {
      refuse("weights", source.path, is_checkpoint ? " is a checkpoint of " : " holds weights of ",
             loaded.state.model, ", not of ", options.model, "; leave --model out");
    }
    if (!options.classes.empty() && !is_checkpoint) {
      loaded.state.classes = class_names(options.classes, source.path, "its metadata",
                                         loaded.state.arguments.classes, loaded.notes);
    } else if (!options.classes.empty()) {
      refuse("weights", source.path,
             " is a checkpoint with its own class names; leave "
             "--classes out");
    }
  } else {
    if (source.is_of_graph) refuse("weights", without_model(source, registries));
    BareModel bare(options, source, registries, dataset);
    loaded.state = bare.state();
    loaded.notes.insert(loaded.notes.end(), bare.notes.begin(), bare.notes.end());
  }
  const engine::ModelRecord& record =
      source.graph ? *source.graph : *value_or_throw(registries.models.find(loaded.state.model));
  if (record.input == engine::ModelInput::kImages) {
    if (!options.tta.empty()) loaded.state.tta = options.tta;
    take_chain(options, source, record, registries, dataset, loaded.state, loaded.notes);
  } else if (!options.val_augment.empty() || !options.tta.empty()) {
    refuse("weights", "--val-augment and --tta are only for images; ", record.name, " takes tokens");
  }
  if (loaded.state.classes.empty()) loaded.state.classes = numbered_classes(loaded.state.arguments.classes);
  {
    const engine::LeaveUninitialized until_loaded(true);
    loaded.model = record.build(loaded.state.arguments);
  }
  copy_weights(source, record, false, *loaded.model, loaded.state.arguments, registries);
  loaded.model->eval();
  return loaded;
}

LoadedModel load_model(const ModelOptions& options, const Registries& registries,
                       const data::Dataset* dataset, BareFiles bare_files) {
  LoadedModel loaded = load_file(options, registries, dataset, bare_files);
  const ModelState& state = loaded.state;
  if (value_or_throw(parse_views(state.tta)) != Views::kOne &&
      task_of(state.task).output != engine::ModelOutput::kImage)
    refuse("weights", "--tta ", state.tta, " averages over one row of numbers for each image, which --task ",
           state.task.name, " does not return; leave it out");
  return loaded;
}

engine::ConstantCache weights_as_constants(std::span<const engine::NamedTensor> parameters) {
  engine::ConstantCache cache;
  for (const engine::NamedTensor& parameter : parameters) cache.add_constant(parameter.tensor);
  return cache;
}

DType dtype_of(const LoadedModel& loaded, const std::string& asked) {
  const Device& device = loaded.model->device();
  return value_or_throw(asked.empty() ? inference_dtype(loaded.state.dtype, device)
                                      : training_dtype(asked, device));
}

}  // namespace dlpipe::run
