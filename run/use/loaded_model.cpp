#include "dlpipe/run/use/loaded_model.h"

#include <algorithm>
#include <filesystem>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/layers/uninitialized.h"
#include "dlpipe/engine/models/picture_graph.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/config/precision.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/saved_kernels.h"
#include "dlpipe/run/use/class_names.h"
#include "dlpipe/run/use/graph_model.h"
#include "dlpipe/run/use/graph_weights.h"
#include "dlpipe/run/use/views.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

namespace {

namespace fs = std::filesystem;

// The kernels that the run took, where the checkpoint still lies in it: so evaluation gives the validation's
// numbers to the last bit.
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

// What a bare file doesn't say, gathered from the options, the shapes, the dataset and the model's record.
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
             " ends with", fits.empty() ? "" : concat("; its tensors are those of --model ", fits));
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
    refuse("weights", record_->name, " takes tokens, and ", source_.path,
           " doesn't say what they stand for; give the checkpoint or the run that it is from");
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

// The whole chain, normalisation with its numbers included.
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
      const data::PixelStats& stats = dataset->pixel_stats();
      found = {value_or_throw(normalization_in("normalize", state.arguments.channels, ops,
                                               {stats.channels, stats.mean, stats.std})),
               concat("the dataset's, as ", source.path, " says nothing of it")};
    }
    if (found.op.empty()) {
      refuse("weights", source.path, " doesn't say how its pictures are normalised; give --val-augment \"",
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
  state.arguments.height = seen_extent(size.height, views);
  state.arguments.width = seen_extent(size.width, views);
  notes.push_back(concat("pictures go through ", chain, "; the normalisation is ", origin));
}

}  // namespace

ModelState state_of_pictures(const engine::graph::Graph& graph, const ModelOptions& options,
                             const Registries& registries, const data::Dataset* dataset,
                             std::vector<std::string>& notes) {
  const engine::PictureGraph pictures = engine::picture_graph(graph);
  ModelState state;
  state.model = graph.name;
  state.arguments.classes = pictures.classes;
  state.arguments.channels = pictures.channels;
  state.loss = "cross_entropy";
  state.metrics = {"top1", "top5"};
  state.classes = names_of_classes(options, options.weights, dataset, "its output", pictures.classes, notes);
  WeightsSource source;
  source.path = options.weights;
  engine::ModelRecord record{};
  record.name = state.model.c_str();
  record.default_size = pictures.height == pictures.width ? pictures.height : 0;
  if (!options.tta.empty()) state.tta = options.tta;
  take_chain(options, source, record, registries, dataset, state, notes);
  if (state.arguments.height != pictures.height || state.arguments.width != pictures.width)
    refuse("weights", options.weights, " takes pictures of ", pictures.height, "x", pictures.width,
           ", and --val-augment \"", state.val_augment, "\"",
           state.tta == "none" ? "" : concat(" with --tta ", state.tta), " makes ", state.arguments.height,
           "x", state.arguments.width);
  return state;
}

LoadedModel load_model(const ModelOptions& options, const Registries& registries,
                       const data::Dataset* dataset, BareFiles bare_files) {
  if (engine::graph::is_graph_file(options.weights)) return load_graph_model(options, registries);
  if (bare_files == BareFiles::kTaken && is_onnx_file(options.weights))
    return load_onnx_model(options, registries, dataset);
  const WeightsSource source = open_weights(options.weights);
  if (!source.state && bare_files == BareFiles::kRefused) {
    refuse("weights", source.path,
           " holds tensors alone; give the checkpoint or the run that it is "
           "from, which says what tokens stand for");
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
             " is a checkpoint with class names of its own; leave "
             "--classes out");
    }
  } else {
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
    refuse("weights", "--val-augment and --tta are for pictures; ", record.name, " takes tokens");
  }
  value_or_throw(parse_views(loaded.state.tta));
  if (loaded.state.classes.empty()) loaded.state.classes = numbered_classes(loaded.state.arguments.classes);
  {
    const engine::LeaveUninitialized until_loaded(true);
    loaded.model = record.build(loaded.state.arguments);
  }
  copy_weights(source, record, false, *loaded.model, loaded.state.arguments, registries);
  loaded.model->eval();
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
