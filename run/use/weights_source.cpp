#include "dlpipe/run/use/weights_source.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/uninitialized.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/io/formats/weights_file.h"
#include "dlpipe/run/input/path_kind.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/tensor_file.h"
#include "dlpipe/run/use/graph_weights.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using engine::NamedShape;
using engine::NamedTensor;

namespace {

struct Wrapper {
  std::string_view prefix;
  std::string_view made_by;
  bool is_attribute = false;  // of a class of the user's: may also be a model's own
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

// Several may be there, in any order. Files that say which model they are of hold that model's own names.
void leave_out_prefixes(WeightsSource& source) {
  while (const Wrapper* wrapper = wrapper_of_all(source.shapes, !source.state)) {
    for (NamedShape& tensor : source.shapes) tensor.name.erase(0, wrapper->prefix.size());
    source.prefix += wrapper->prefix;
    source.notes.push_back(concat("the names in ", source.path, " begin with '", wrapper->prefix, "', which ",
                                  wrapper->made_by, " puts there; it is left out"));
  }
}

constexpr const char* kStateKey = "dlpipe";

WeightsSource open_file(const std::string& path) {
  WeightsSource source;
  source.path = path;
  source.step = -1;
  source.shapes = value_or_throw(list_tensors(path));
  if (const std::string part = value_or_throw(formats::WeightsFile::open(path)).part(); !part.empty())
    source.notes.push_back(concat("of ", path, ", what it holds as '", part, "' is read"));
  const auto metadata = value_or_throw(read_metadata(path));
  if (const auto found = metadata.find(kStateKey); found != metadata.end()) {
    const std::string what = concat("the metadata of ", path);
    const auto json = formats::Json::parse(found->second);
    if (!json.ok()) throw Error(json.status().with_context(concat("[weights] ", what, ": ")));
    source.state = value_or_throw(model_state_from_json(*json, what));
  }
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

/// Heights and widths to try for a model that takes any: MNIST's and CIFAR's.
std::vector<int64_t> sizes_of(const engine::ModelRecord& record) {
  return record.default_size > 0 ? std::vector<int64_t>{record.default_size} : std::vector<int64_t>{28, 32};
}

}  // namespace

std::map<std::string, std::string> weights_metadata(const ModelState& state) {
  if (!state.graph.empty()) return {};
  return {{kStateKey, to_json(state).dump()}};
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
  const std::string fits = fitting_model(source.shapes, registries);
  return concat(source.path, " holds tensors alone and doesn't say of which model; ",
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

/// What `model` would take of the source: all of its tensors but those under a `head` that isn't empty.
std::vector<NamedShape> given_shapes(const WeightsSource& source, const engine::Module& model,
                                     std::string_view head) {
  std::vector<NamedShape> given;
  for (const NamedShape& tensor : source.shapes) {
    if (!is_under(tensor.name, head)) given.push_back(tensor);
  }
  for (const NamedTensor& own : model.state_dict()) {
    if (is_under(own.name, head)) given.push_back({own.name, own.tensor.shape()});
  }
  return given;
}

/// In what the source's weights of the same model differ.
std::string difference_of_arguments(const WeightsSource& source, const engine::ModelRecord& record,
                                    const engine::Module& model, const engine::ModelArguments& arguments) {
  const auto picture = [](const engine::ModelArguments& a) {
    return concat(a.height, "x", a.width, "x", a.channels);
  };
  if (source.state && picture(source.state->arguments) != picture(arguments))
    return concat(" for pictures of ", picture(source.state->arguments), ", got ", picture(arguments));
  if (model.state_differences(given_shapes(source, model, record.head)).empty()) return " with other classes";
  return " with other channels or for another size of pictures";
}

/// Why the source's tensors don't go into `model`; parameters under a `head` that isn't empty don't count.
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
    advice = concat("; they are the same model's", difference_of_arguments(source, record, model, arguments));
    if (head.empty() && has_other_head(source, record, model)) advice += head_advice;
  } else if (!fits.empty()) {
    advice = concat("; they are those of --model ", fits);
  }
  return misuse("weights", "the tensors of ", source.path, " are not those of this ", record.name, "; ",
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
    if (is_under(own.name, head)) weights.push_back(own);
  }
  model.load_state_dict(weights);
}

WeightsNormalization normalization_of(const WeightsSource& source, const engine::ModelRecord& record,
                                      int64_t channels, const augment::OpRegistry& registry) {
  if (source.state) {
    if (source.state->arguments.channels != channels || source.state->val_augment.empty()) return {};
    return {
        value_or_throw(normalization_in(source.state->val_augment, channels, registry)),
        source.step < 0 ? concat("as ", source.path, " says") : concat("the checkpoint's, of ", source.path)};
  }
  if (record.published == nullptr || channels != 3) return {};
  return {record.published->normalize, concat(record.published->publisher, "'s constants, as the names in ",
                                              source.path, " are ", record.published->publisher, "'s")};
}

std::string default_cut(const engine::ModelRecord& record, const data::Dataset* dataset) {
  const int64_t size = record.default_size;
  if (size > 0) {
    const int64_t shorter = record.published != nullptr ? record.published->resize : size;
    return concat("resize(", shorter, ") center_crop(", size, ")");
  }
  if (dataset == nullptr || dataset->size() == 0) {
    refuse("weights", record.name,
           " takes pictures of any size, and its weights don't say of which; give --val-augment "
           "\"resize(HxW)\"");
  }
  const data::RecordHeader first = value_or_throw(dataset->header(0));
  return concat("resize(", first.height, "x", first.width, ")");
}

}  // namespace dlpipe::run
