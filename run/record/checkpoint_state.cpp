// CheckpointState as JSON. 64-bit hashes are hex texts, because many JSON readers do not represent such numbers exactly.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "engine/models/box_coding.h"
#include "io/data/checksum.h"
#include "run/config/config.h"
#include "run/input/box_coding.h"
#include "run/record/checkpoint.h"

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

}  // namespace dlpipe::run
