// CheckpointState as JSON. 64-bit hashes are hex texts, because many JSON readers do not represent such numbers exactly.

#include "run/record/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/log.h"
#include "dlpipe/tensor.h"
#include "engine/models/box_coding.h"
#include "io/data/checksum.h"
#include "io/formats/atomic_file.h"
#include "io/formats/safetensors.h"
#include "io/formats/weights_file.h"
#include "run/config/config.h"
#include "run/input/box_coding.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

namespace {

using formats::Json;

constexpr int64_t kVersion = 2;  // 1 had no checksum
constexpr const char* kChecksum = "checksum";

Json texts(const std::vector<std::string>& values) {
  return Json(Json::Array(values.begin(), values.end()));
}
/// The list of texts at `key`; empty if there is no such key.
Result<std::vector<std::string>> texts(const Json& object, std::string_view key, std::string_view file) {
  std::vector<std::string> values;
  for (const Json& item : object[key].items()) values.push_back(item.as_string());
  const bool are_texts = std::ranges::all_of(object[key].items(), &Json::is_string);
  if (are_texts && (object[key].is_array() || object[key].is_null())) return values;
  return Status(ErrorCode::kCorrupt, concat("[checkpoint] '", key, "' in ", file,
                                            " is not a list of strings; use another checkpoint"));
}

Result<uint64_t> hex_value(std::string_view text, std::string_view key, std::string_view file) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status(ErrorCode::kCorrupt, concat("[checkpoint] '", key, "' in ", file,
                                              " is not a hexadecimal number; use another checkpoint"));
  }
  return value;
}

Result<uint64_t> require_hex(const Json& object, std::string_view key, std::string_view file) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::require_string(object, key, file));
  return hex_value(text, key, file);
}

/// Those that differ from the defaults.
Json loss_options_json(const LossArguments& options) {
  Json json = Json::object();
  for (const LossOption& option : kLossOptions)
    if (options.*option.value != LossArguments().*option.value) json.set(option.name, options.*option.value);
  return json;
}

Result<LossArguments> loss_options_from(const Json& json, std::string_view file) {
  LossArguments options;
  for (const LossOption& option : kLossOptions) {
    if (!json.contains(option.name)) continue;
    double& value = options.*option.value;
    value = json[option.name].as_double(std::numeric_limits<double>::quiet_NaN());
    if (!std::isfinite(value))
      return Status(ErrorCode::kCorrupt, concat("[checkpoint] the loss option '", option.name, "' in ", file,
                                                " is not a number; use another checkpoint"));
  }
  return options;
}

Json model_json(const ModelState& model) {
  Json json = Json::object({{"model", model.model},
                            {"class_count", model.arguments.classes},
                            {"channels", model.arguments.channels},
                            {"height", model.arguments.height},
                            {"width", model.arguments.width},
                            {"length", model.arguments.length},
                            {"weights_seed", hex64(model.arguments.seed)},
                            {"classes", texts(model.classes)},
                            {"val_augment", model.val_augment},
                            {"tta", model.tta},
                            {"dtype", model.dtype},
                            {"loss", model.loss},
                            {"metrics", texts(model.metrics)}});
  if (Json options = loss_options_json(model.loss_options); !options.members().empty())
    json.set("loss_options", std::move(options));
  if (!model.graph.empty()) json.set("graph", model.graph);
  if (model.task.name != "classify") {
    Json task = Json::object({{"name", model.task.name}, {"fields", texts(model.task.fields)}});
    if (!model.task.mean.empty()) {
      task.set("mean", Json(Json::Array(model.task.mean.begin(), model.task.mean.end())));
      task.set("deviation", Json(Json::Array(model.task.deviation.begin(), model.task.deviation.end())));
    }
    if (model.task.boxes.stride > 0) task.set("stride", model.task.boxes.stride);
    if (!model.task.boxes.levels.empty()) task.set("boxes", engine::box_coding_json(model.task.boxes));
    json.set("task", std::move(task));
  }
  return json;
}

/// The coding of a grid of boxes. Checkpoints only record its stride.
Json grid_json(const Json& task) {
  return Json::object({{"name", "grid"}, {"stride", task["stride"]}});
}

Result<ModelState> model_from(const Json& json, std::string_view file) {
  ModelState model;
  DLPIPE_ASSIGN_OR_RETURN(model.model, formats::require_string(json, "model", file));
  DLPIPE_ASSIGN_OR_RETURN(model.arguments.classes, formats::require_int(json, "class_count", file));
  DLPIPE_ASSIGN_OR_RETURN(model.arguments.channels, formats::require_int(json, "channels", file));
  DLPIPE_ASSIGN_OR_RETURN(model.arguments.height, formats::require_int(json, "height", file));
  DLPIPE_ASSIGN_OR_RETURN(model.arguments.width, formats::require_int(json, "width", file));
  if (json["length"].is_integer()) model.arguments.length = json["length"].as_int();  // not in older ones
  DLPIPE_ASSIGN_OR_RETURN(model.arguments.seed, require_hex(json, "weights_seed", file));
  DLPIPE_ASSIGN_OR_RETURN(model.val_augment, formats::require_string(json, "val_augment", file));
  DLPIPE_ASSIGN_OR_RETURN(model.tta, formats::require_string(json, "tta", file));
  DLPIPE_ASSIGN_OR_RETURN(model.dtype, formats::require_string(json, "dtype", file));
  DLPIPE_ASSIGN_OR_RETURN(model.loss, formats::require_string(json, "loss", file));
  DLPIPE_ASSIGN_OR_RETURN(model.loss_options, loss_options_from(json["loss_options"], file));
  DLPIPE_ASSIGN_OR_RETURN(model.classes, texts(json, "classes", file));
  DLPIPE_ASSIGN_OR_RETURN(model.metrics, texts(json, "metrics", file));
  if (json.contains("graph")) {
    DLPIPE_ASSIGN_OR_RETURN(model.graph, formats::require_string(json, "graph", file));
  }
  if (json.contains("task")) {  // else it is classify
    const Json& task = json["task"];
    DLPIPE_ASSIGN_OR_RETURN(model.task.name, formats::require_string(task, "name", file));
    DLPIPE_ASSIGN_OR_RETURN(model.task.fields, texts(task, "fields", file));
    for (const Json& value : task["mean"].items()) model.task.mean.push_back(value.as_double());
    for (const Json& value : task["deviation"].items()) model.task.deviation.push_back(value.as_double());
    const bool has_boxes = model.task.name == "detect";
    if (has_boxes) {
      DLPIPE_ASSIGN_OR_RETURN(
          model.task.boxes,
          engine::box_coding_from(task.contains("boxes") ? task["boxes"] : grid_json(task), file));
      DLPIPE_RETURN_IF_ERROR(find_box_coding(model.task.boxes).status());
    }
    const size_t numbers = model.task.name == "regress" ? static_cast<size_t>(model.arguments.classes) : 0;
    const auto is_bad = [](double value) { return !std::isfinite(value); };
    if (model.task.fields.size() < (has_boxes ? 2 : 1) || model.task.mean.size() != numbers ||
        model.task.deviation.size() != numbers || std::ranges::any_of(model.task.mean, is_bad) ||
        std::ranges::any_of(model.task.deviation, is_bad))
      return Status(ErrorCode::kCorrupt,
                    concat("[checkpoint] invalid task in ", file, "; use another checkpoint"));
  }
  const engine::ModelArguments& a = model.arguments;
  constexpr int64_t kMaxSide = 1 << 16, kMaxLength = 1 << 20;
  if (a.classes < 1 || a.classes > (int64_t{1} << 24) || a.channels < 1 || a.channels > 4 || a.height < 1 ||
      a.height > kMaxSide || a.width < 1 || a.width > kMaxSide || a.length < 0 || a.length > kMaxLength) {
    return Status(ErrorCode::kCorrupt,
                  concat("[checkpoint] invalid model sizes in ", file, "; use another checkpoint"));
  }
  if (!model.classes.empty() && static_cast<int64_t>(model.classes.size()) != a.classes) {
    return Status(ErrorCode::kCorrupt,
                  concat("[checkpoint] ", file, " names ",
                         counted(static_cast<int64_t>(model.classes.size()), "class", "classes"),
                         ", but its model has outputs for ", a.classes, "; use another checkpoint"));
  }
  return model;
}

Json trainer_json(const TrainerState& trainer) {
  return Json::object(
      {{"step", trainer.step},
       {"best", trainer.best},
       {"best_step", trainer.best_step},
       {"worse_validations", trainer.worse_validations},
       {"skipped_steps", trainer.skipped_steps},
       {"overflowed_steps", trainer.overflowed_steps},
       {"loss_scale", trainer.loss_scale},
       {"good_steps", trainer.good_steps},
       {"parameters_chain", hex64(trainer.parameters_chain)},
       {"validated_step", trainer.validated_step},
       {"chained_step", trainer.chained_step},
       {"epoch_loss_sum",
        std::isnan(trainer.epoch_loss_sum) ? formats::Json() : formats::Json(trainer.epoch_loss_sum)},
       {"epoch_loss_steps", trainer.epoch_loss_steps},
       {"metrics_bytes", trainer.metrics_bytes},
       {"quarantine_bytes", trainer.quarantine_bytes}});
}

Result<TrainerState> trainer_from(const Json& json, std::string_view file) {
  TrainerState trainer;
  DLPIPE_ASSIGN_OR_RETURN(trainer.step, formats::require_int(json, "step", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.best_step, formats::require_int(json, "best_step", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.validated_step, formats::require_int(json, "validated_step", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.chained_step, formats::require_int(json, "chained_step", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.worse_validations, formats::require_int(json, "worse_validations", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.skipped_steps, formats::require_int(json, "skipped_steps", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.parameters_chain, require_hex(json, "parameters_chain", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.metrics_bytes, formats::require_int(json, "metrics_bytes", file));
  DLPIPE_ASSIGN_OR_RETURN(trainer.quarantine_bytes, formats::require_int(json, "quarantine_bytes", file));
  trainer.best = json["best"].as_double();
  // Older ones have no sum: NaN means that the epoch's mean is unknown.
  trainer.epoch_loss_sum = json["epoch_loss_sum"].as_double(std::numeric_limits<double>::quiet_NaN());
  trainer.epoch_loss_steps = json["epoch_loss_steps"].as_int();
  // Older ones have no loss scale.
  trainer.overflowed_steps = json["overflowed_steps"].as_int();
  trainer.loss_scale = json["loss_scale"].as_double();
  trainer.good_steps = json["good_steps"].as_int();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (!(trainer.loss_scale >= 0 && trainer.loss_scale <= std::numeric_limits<float>::max()) ||
      trainer.good_steps < 0 || trainer.good_steps > kMost) {
    return Status(ErrorCode::kCorrupt,
                  concat("[checkpoint] invalid loss scale in ", file, "; use another checkpoint"));
  }
  return trainer;
}

Json source_json(const SourceState& source) {
  Json json = Json::object(
      {{"dataset_id", source.dataset_id},
       {"pipeline_id", source.pipeline_id},
       {"seed", hex64(source.seed)},
       {"epoch", source.epoch},
       {"batch_index", source.batch_index},
       {"samples_consumed", source.samples_consumed},
       {"batches_chain", hex64(source.chain)},
       {"bad_samples", Json(Json::Array(source.bad_samples.begin(), source.bad_samples.end()))}});
  if (source.grain_chains.empty()) return json;
  Json chains = Json::array();
  for (const uint64_t chain : source.grain_chains) chains.push_back(hex64(chain));
  json.set("grain_chains", std::move(chains));
  return json;
}

Result<SourceState> source_from(const Json& json, std::string_view file) {
  SourceState source;
  DLPIPE_ASSIGN_OR_RETURN(source.dataset_id, formats::require_string(json, "dataset_id", file));
  DLPIPE_ASSIGN_OR_RETURN(source.pipeline_id, formats::require_string(json, "pipeline_id", file));
  DLPIPE_ASSIGN_OR_RETURN(source.seed, require_hex(json, "seed", file));
  DLPIPE_ASSIGN_OR_RETURN(source.epoch, formats::require_int(json, "epoch", file));
  DLPIPE_ASSIGN_OR_RETURN(source.batch_index, formats::require_int(json, "batch_index", file));
  DLPIPE_ASSIGN_OR_RETURN(source.samples_consumed, formats::require_int(json, "samples_consumed", file));
  DLPIPE_ASSIGN_OR_RETURN(source.chain, require_hex(json, "batches_chain", file));
  for (const Json& sample : json["bad_samples"].items()) source.bad_samples.push_back(sample.as_int());
  for (const Json& chain : json["grain_chains"].items()) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t value,
                            hex_value(chain.is_string() ? chain.as_string() : "", "grain_chains", file));
    source.grain_chains.push_back(value);
  }
  return source;
}

}  // namespace

Json to_json(const ModelState& state) {
  return model_json(state);
}

Result<ModelState> model_state_from_json(const Json& json, const std::string& file) {
  return model_from(json, file);
}

Json to_json(const CheckpointState& state) {
  return Json::object({{"version", kVersion},
                       {"model", model_json(state.model)},
                       {"trainer", trainer_json(state.trainer)},
                       {"source", source_json(state.source)}});
}

Json with_checksum(Json json) {
  const std::string text = json.dump();
  json.set(kChecksum, hex64(data::checksum64(std::as_bytes(std::span(text)))));
  return json;
}

Status check_checksum(const Json& json, const std::string& file, std::string_view advice) {
  if (!json.contains(kChecksum) && json["version"] == Json(1)) return {};
  Json without = Json::object();
  for (const auto& [key, value] : json.members()) {
    if (key != kChecksum) without.set(key, value);
  }
  if (with_checksum(std::move(without)) == json) return {};
  return {ErrorCode::kCorrupt,
          concat("[checkpoint] ", file, " has changed or is corrupt (its checksum differs); ", advice)};
}

Result<CheckpointState> checkpoint_state_from_json(const Json& json, const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const int64_t version, formats::require_int(json, "version", file));
  if (version < 1 || version > kVersion) {
    return Status(ErrorCode::kUnsupported,
                  concat("[checkpoint] ", file, " has version ", version, "; this dlpipe reads 1 to ",
                         kVersion, ": use the one that wrote it, or a later one"));
  }
  CheckpointState state;
  DLPIPE_ASSIGN_OR_RETURN(state.model, model_from(json["model"], file));
  DLPIPE_ASSIGN_OR_RETURN(state.trainer, trainer_from(json["trainer"], file));
  DLPIPE_ASSIGN_OR_RETURN(state.source, source_from(json["source"], file));
  return state;
}

namespace {

using engine::NamedTensor;
using engine::Tensor;

Tensor plain_contiguous(const Tensor& tensor) {
  return (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).to(cpu_device());
}

Result<Shape> shape_of(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  if (entry.shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return Status(ErrorCode::kUnsupported,
                  concat("[weights] tensor '", entry.name, "' of ", file.path(), " has ", entry.shape.size(),
                         " dimensions; at most ", Shape::kMaxRank, " are supported"));
  }
  return Shape{std::span<const int64_t>(entry.shape)};
}

Result<Tensor> read_tensor(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
  if (!entry.dtype) {
    return Status(ErrorCode::kUnsupported, concat("[weights] tensor '", entry.name, "' of ", file.path(),
                                                  " is ", entry.dtype_text, "; convert it to F32"));
  }
  Tensor tensor = Tensor::empty(shape, *entry.dtype);
  DLPIPE_RETURN_IF_ERROR(file.read(entry, bytes_of(tensor)));
  return tensor;
}

}  // namespace

Status save_tensors(const std::string& path, std::span<const NamedTensor> tensors,
                    std::map<std::string, std::string> metadata) {
  std::vector<Tensor> kept;  // copies of tensors that are not contiguous, until the file is written
  std::vector<formats::SafetensorsTensor> entries;
  for (const NamedTensor& named : tensors) {
    kept.push_back(plain_contiguous(named.tensor));
    const Tensor& tensor = kept.back();
    entries.push_back(
        {named.name, tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}, bytes_of(tensor)});
  }
  metadata.emplace("format", "pt");
  return formats::write_safetensors(path, entries, metadata).status();
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  return file.metadata();
}

Result<std::vector<engine::NamedShape>> list_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<engine::NamedShape> shapes;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
    shapes.push_back({entry.name, shape});
  }
  return shapes;
}

Result<std::vector<NamedTensor>> load_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<NamedTensor> tensors;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(file, entry));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  return tensors;
}

uint64_t hash_tensors(std::span<const NamedTensor> tensors, uint64_t seed) {
  uint64_t hash = seed;
  for (const NamedTensor& named : tensors) {
    const std::string head =
        concat(named.name, " ", dtype_name(named.tensor.dtype()), " ", named.tensor.shape().to_string());
    hash = data::checksum64(std::as_bytes(std::span(head.data(), head.size())), hash);
    hash = data::checksum64(bytes_of(plain_contiguous(named.tensor)), hash);
  }
  return hash;
}

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kOptimizerPart = "optimizer-";
constexpr std::string_view kEmaFile = "ema.safetensors";
constexpr std::string_view kStateFile = "state.json";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";
constexpr std::string_view kDamaged = ".corrupt";
constexpr std::string_view kLast = "last";
constexpr std::string_view kBest = "best";

std::string in(const std::string& directory, std::string_view name) {
  return concat(directory, "/", name);
}

Status file_system_error(std::string_view what, const std::error_code& error) {
  return status_from_errno("checkpoint", what, error.value());
}

/// Step of "step-000000500"; -1 for anything else, including partly written ones.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  if (name.rfind(kStepPrefix, 0) != 0 || !parse_int(std::string_view(name).substr(kStepPrefix.size()), &step))
    return -1;
  return step;
}

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 9 - std::min<size_t>(9, digits.size()), '0');
  return concat(kStepPrefix, digits);
}

/// Names that begin like a checkpoint's, complete or not.
Result<std::vector<std::string>> step_names(const std::string& checkpoints) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(checkpoints, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(kStepPrefix)) names.push_back(std::move(name));
  }
  if (error) return file_system_error(concat("cannot list ", checkpoints), error);
  return names;
}

/// Directories of checkpoints by step, latest first.
using Steps = std::map<int64_t, std::string, std::greater<>>;

/// All complete checkpoints. If the writer was killed while replacing a step, this is the old one.
Result<Steps> find_steps(const std::string& checkpoints) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, step_names(checkpoints));
  Steps steps;
  for (std::string name : names) {
    const bool is_replaced = name.ends_with(kReplaced);
    if (is_replaced) name.resize(name.size() - kReplaced.size());
    const int64_t step = step_of(name);
    if (step < 0) continue;
    if (is_replaced)
      steps.emplace(step, in(checkpoints, name + std::string(kReplaced)));
    else
      steps.insert_or_assign(step, in(checkpoints, name));
  }
  return steps;
}

Result<Json> describe_file(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const data::FileChecksum found, data::checksum_file(path));
  return Json::object(
      {{"bytes", static_cast<int64_t>(found.size_bytes)}, {"checksum", hex64(found.checksum)}});
}

Status write_tensors(const std::string& directory, std::string_view name,
                     const std::vector<engine::NamedTensor>& values, Json& files) {
  DLPIPE_RETURN_IF_ERROR(save_tensors(in(directory, name), values));
  DLPIPE_ASSIGN_OR_RETURN(Json description, describe_file(in(directory, name)));
  files.set(name, std::move(description));
  return {};
}

Status write_files(const std::string& directory, const CheckpointState& state,
                   const CheckpointTensors& tensors, const OptimizerWriter& write_optimizer) {
  Json files = Json::object();
  if (write_optimizer) {  // first: other processes wait for it
    DLPIPE_ASSIGN_OR_RETURN(files, write_optimizer(directory));
  } else {
    DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kOptimizerFile, tensors.optimizer, files));
  }
  DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kModelFile, tensors.model, files));
  if (!tensors.ema.empty()) DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kEmaFile, tensors.ema, files));
  Json json = to_json(state);
  json.set("files", std::move(files));
  return formats::write_json(in(directory, kStateFile), with_checksum(std::move(json)));
}

// Replaces `final`, which may be an earlier checkpoint of the same step, by `partial`. At all times, one of them exists.
Status publish(const std::string& partial, const std::string& final) {
  std::error_code error;
  if (!fs::exists(final, error)) {
    if (::rename(partial.c_str(), final.c_str()) == 0) return {};
    return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
  }
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0) {
    // For file systems without an atomic exchange. remove_old() removes the old one; find_steps() knows its name.
    const std::string replaced = concat(final, kReplaced);
    fs::remove_all(replaced, error);
    if (::rename(final.c_str(), replaced.c_str()) != 0)
      return status_from_errno("checkpoint", concat("cannot rename ", final), errno);
    if (::rename(partial.c_str(), final.c_str()) != 0)
      return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
    return {};
  }
  fs::remove_all(partial, error);
  return error ? file_system_error(concat("cannot remove ", partial), error) : Status();
}

// Keeps the `keep` - 1 latest of the steps before `trainer`'s, and the best.
Status remove_old(const std::string& checkpoints, int64_t keep, const TrainerState& trainer) {
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, find_steps(checkpoints));
  std::vector<std::string> leftovers;
  int64_t kept = 1;
  for (const auto& [step, path] : steps) {
    if (step >= trainer.step || kept++ < keep || step == trainer.best_step) continue;
    leftovers.push_back(path);
  }
  std::error_code error;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, step_names(checkpoints));
  for (const std::string& name : names) {
    const bool was_replaced = name.ends_with(kReplaced) &&
                              fs::exists(in(checkpoints, name.substr(0, name.size() - kReplaced.size())));
    if (name.ends_with(kPartial) || was_replaced) leftovers.push_back(in(checkpoints, name));
  }
  for (const std::string& path : leftovers) {
    fs::remove_all(path, error);
    if (error) return file_system_error(concat("cannot remove ", path), error);
  }
  return {};
}

Result<std::vector<engine::NamedTensor>> load_checked(const std::string& directory, const Json& files,
                                                      std::string_view name) {
  const std::string path = in(directory, name);
  const auto differs = [&] {
    return Status(
        ErrorCode::kCorrupt,
        concat("[checkpoint] ", path, " does not match the state.json next to it; use another checkpoint"));
  };
  // Checks the size first, which is free, while reading a file that is far too large is expensive.
  std::error_code error;
  const uintmax_t size_bytes = fs::file_size(path, error);
  if (error) return file_system_error(concat("cannot stat ", path), error);
  if (!(Json(static_cast<int64_t>(size_bytes)) == files[name]["bytes"])) return differs();
  DLPIPE_ASSIGN_OR_RETURN(const Json found, describe_file(path));
  if (!(found == files[name])) return differs();
  return load_tensors(path);
}

Result<std::vector<engine::NamedTensor>> load_optimizer(const std::string& directory, const Json& files) {
  std::vector<engine::NamedTensor> all;
  bool has_parts = false;
  for (const auto& [name, description] : files.members()) {
    if (!name.starts_with(kOptimizerPart)) continue;
    has_parts = true;
    DLPIPE_ASSIGN_OR_RETURN(std::vector<engine::NamedTensor> part, load_checked(directory, files, name));
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  if (has_parts) return all;
  return load_checked(directory, files, kOptimizerFile);
}

Result<Json> read_state(const std::string& directory) {
  const std::string file = in(directory, kStateFile);
  DLPIPE_ASSIGN_OR_RETURN(Json json, formats::read_json(file));
  DLPIPE_RETURN_IF_ERROR(check_checksum(json, file, "use another checkpoint"));
  return json;
}

/// The best of the checkpoints below, else the last, according to the latest state.json; the links may be older if the writer
/// was killed. "" if there is none. If that file can't be used, an older checkpoint is not used instead, because its weights
/// are not the requested ones.
Result<std::string> best_of(const std::string& checkpoints) {
  const Result<Steps> found_steps = find_steps(checkpoints);
  if (found_steps.status().code() == ErrorCode::kNotFound) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, found_steps);
  if (steps.empty()) return std::string();
  const std::string& latest = steps.begin()->second;
  const Result<CheckpointState> state = [&]() -> Result<CheckpointState> {
    DLPIPE_ASSIGN_OR_RETURN(const Json json, read_state(latest));
    return checkpoint_state_from_json(json, in(latest, kStateFile));
  }();
  if (!state.ok()) {
    std::string advice = "; it records which checkpoint is the run's best";
    if (steps.size() > 1)
      advice += concat(": name the one to use, such as ", std::next(steps.begin())->second);
    return Status(state.status().code(), state.status().message() + advice);
  }
  const int64_t best = state->trainer.best_step;
  if (const auto found = steps.find(best); found != steps.end()) return found->second;
  if (best >= 0) {
    log(LogLevel::kWarning, concat("the best checkpoint of ", checkpoints, " (step ", best,
                                   ") is missing; using the last one, of step ", steps.begin()->first));
  }
  return latest;
}

}  // namespace

Status point_links(const std::string& checkpoints, const TrainerState& trainer) {
  DLPIPE_RETURN_IF_ERROR(replace_by_link("checkpoint", in(checkpoints, kLast), step_name(trainer.step)));
  const std::string best = step_name(trainer.best_step);
  std::error_code error;
  if (trainer.best_step >= 0 && fs::exists(in(checkpoints, best), error))
    DLPIPE_RETURN_IF_ERROR(replace_by_link("checkpoint", in(checkpoints, kBest), best));
  return sync_directory("checkpoint", checkpoints);
}

Result<FileDescriptions> write_optimizer_part(const std::string& directory, int part, int parts,
                                              const std::vector<engine::NamedTensor>& optimizer) {
  Json files = Json::object();
  DLPIPE_RETURN_IF_ERROR(write_tensors(
      directory, concat(kOptimizerPart, part + 1, "-of-", parts, ".safetensors"), optimizer, files));
  return files;
}

static Result<std::string> make_partial(const std::string& partial) {
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return file_system_error(concat("cannot create ", partial), error);
  return partial;
}

Result<std::string> save_checkpoint(const std::string& checkpoints, const CheckpointState& state,
                                    const CheckpointTensors& tensors, int64_t keep,
                                    const OptimizerWriter& write_optimizer) {
  const std::string name = step_name(state.trainer.step);
  const std::string partial = concat(checkpoints, "/", name, kPartial);
  const std::string final = in(checkpoints, name);
  Result<std::string> made = make_partial(partial);
  if (!made.ok()) {
    if (write_optimizer) (void)write_optimizer(made);
    return made;
  }
  Status written = write_files(partial, state, tensors, write_optimizer);
  if (written.ok()) written = sync_directory("checkpoint", partial);
  if (!written.ok()) {
    std::error_code error;
    fs::remove_all(partial, error);
    return written;
  }
  DLPIPE_RETURN_IF_ERROR(publish(partial, final));
  DLPIPE_RETURN_IF_ERROR(point_links(checkpoints, state.trainer));
  DLPIPE_RETURN_IF_ERROR(remove_old(checkpoints, keep, state.trainer));
  return final;
}

Result<Checkpoint> load_checkpoint(const std::string& directory, bool with_optimizer) {
  Checkpoint checkpoint;
  checkpoint.directory = directory;
  DLPIPE_ASSIGN_OR_RETURN(const Json json, read_state(directory));
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.state, checkpoint_state_from_json(json, in(directory, kStateFile)));
  const Json& files = json["files"];
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.model, load_checked(directory, files, kModelFile));
  if (with_optimizer) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.optimizer, load_optimizer(directory, files));
  }
  if (files.contains(kEmaFile)) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.ema, load_checked(directory, files, kEmaFile));
  }
  return checkpoint;
}

Result<std::vector<std::string>> list_checkpoints(const std::string& checkpoints) {
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, find_steps(checkpoints));
  std::vector<std::string> directories;
  for (const auto& [step, path] : steps) directories.push_back(path);
  return directories;
}

Result<std::string> any_checkpoint_file(const std::string& checkpoints) {
  const Result<std::vector<std::string>> names = step_names(checkpoints);
  if (names.status().code() == ErrorCode::kNotFound) return std::string();
  DLPIPE_RETURN_IF_ERROR(names.status());
  if (!names->empty()) return in(checkpoints, names->front());
  for (const std::string_view link : {kLast, kBest}) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(in(checkpoints, link), error);
    if (fs::exists(status) && !fs::is_symlink(status)) return in(checkpoints, link);
  }
  return std::string();
}

Result<std::optional<Checkpoint>> open_latest_checkpoint(
    const std::string& checkpoints, const std::function<void(const std::string&)>& note) {
  const Result<std::vector<std::string>> found = list_checkpoints(checkpoints);
  if (found.status().code() == ErrorCode::kNotFound) {
    return Status(ErrorCode::kNotFound,
                  concat(found.status().message(),
                         "; restore the run's checkpoints, or a link to them; with an empty folder "
                         "the run starts over"));
  }
  DLPIPE_RETURN_IF_ERROR(found.status());
  std::vector<std::string> damaged;
  Status first_damage;
  for (const std::string& path : *found) {
    Result<Checkpoint> loaded = load_checkpoint(path);
    if (!loaded.ok()) {
      // A failure of memory or disk says nothing about the checkpoint.
      const ErrorCode code = loaded.status().code();
      if (code != ErrorCode::kCorrupt && code != ErrorCode::kNotFound) return loaded.status();
      if (damaged.empty()) first_damage = loaded.status();
      damaged.push_back(path);
      continue;
    }
    for (const std::string& bad : damaged) {
      const std::string aside = concat(bad, kDamaged);
      std::error_code error;
      fs::remove_all(aside, error);
      fs::rename(bad, aside, error);
      if (error) return file_system_error(concat("cannot rename ", bad), error);
    }
    if (!damaged.empty()) {
      note(concat("skipping a corrupt checkpoint: ", first_damage.message(), "; continuing from ", path,
                  "; what was skipped is kept in ", damaged.front(), kDamaged));
    }
    DLPIPE_RETURN_IF_ERROR(point_links(checkpoints, loaded->state.trainer));
    return std::optional<Checkpoint>(*std::move(loaded));
  }
  if (damaged.empty()) return std::optional<Checkpoint>();
  return Status(ErrorCode::kCorrupt,
                concat(first_damage.message(), "; ",
                       damaged.size() == 1 ? std::string("the only checkpoint")
                                           : concat("all ", damaged.size(), " checkpoints"),
                       " in ", checkpoints, damaged.size() == 1 ? " is" : " are",
                       " corrupt, so the run can't continue; start another: dlpipe train --config "
                       "RUN/config.toml --out NEW"));
}

int64_t checkpoint_step(const std::string& directory) {
  std::string name = fs::path(directory).filename().string();
  if (name.ends_with(kReplaced)) name.resize(name.size() - kReplaced.size());
  return step_of(name);
}

Result<std::string> find_checkpoint(const std::string& path) {
  std::error_code error;
  const auto holds_state = [&](const std::string& directory) {
    return fs::exists(in(directory, kStateFile), error);
  };
  std::string directory = path;
  if (fs::is_regular_file(directory, error)) directory = fs::path(directory).parent_path().string();
  if (directory.empty()) directory = ".";
  if (holds_state(directory)) return directory;
  for (const std::string& checkpoints : {in(directory, "checkpoints"), directory}) {
    DLPIPE_ASSIGN_OR_RETURN(std::string best, best_of(checkpoints));
    if (!best.empty()) return best;
  }
  if (!fs::exists(path, error)) {
    DLPIPE_RETURN_IF_ERROR(refuse_other_kind("checkpoint", path, Wanted::kModel));  // or a model's name
    return Status(ErrorCode::kNotFound,
                  concat("[checkpoint] there is no ", path,
                         "; give runs/NAME, runs/NAME/checkpoints/best or a file of weights"));
  }
  DLPIPE_RETURN_IF_ERROR(refuse_other_kind("checkpoint", path, Wanted::kCheckpoint));
  return Status(ErrorCode::kNotFound, concat("[checkpoint] ", path,
                                             " is neither a checkpoint nor a run with one; give runs/NAME or "
                                             "runs/NAME/checkpoints/best"));
}

}  // namespace dlpipe::run
