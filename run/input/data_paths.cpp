#include "dlpipe/run/input/data_paths.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <vector>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

static bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

static std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// `option`: what takes another one.
static Status no_such_part(const std::string& directory, const std::vector<std::string>& names,
                           std::string_view part, std::string_view option) {
  std::string given;
  for (const std::string& name : names)
    given += concat(given.empty() ? "" : " or ", option, " ", shell_word(concat(directory, "/", name)));
  return misuse("data", directory, " holds ", list(names), " and no '", part, "'; give ", given);
}

static Result<std::string> part_of(const std::string& directory, std::string_view part,
                                   std::string_view option) {
  DLPIPE_RETURN_IF_ERROR(refuse_other_kind("dataset", directory, Wanted::kDataset));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, data::split_names(directory));
  if (names.empty()) return directory;
  if (contains(names, part)) return concat(directory, "/", part);
  return no_such_part(directory, names, part, option);
}

Result<std::string> training_data(const std::string& data) {
  return part_of(data, "train", "--data");
}

Result<std::string> validation_data(const std::string& data, const std::string& val) {
  if (!val.empty()) return part_of(val, "val", "--val");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, data::split_names(data));
  if (contains(names, "val")) return data + "/val";
  fs::path path = fs::path(data).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DST/train/"
  if (path.filename() == "train") {
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> beside, data::split_names(parent.string()));
    if (contains(beside, "val")) return (parent / "val").string();
  }
  return std::string();
}

Result<EvaluationData> evaluation_data(const std::string& data, const std::string& split) {
  DLPIPE_RETURN_IF_ERROR(refuse_other_kind("dataset", data, Wanted::kDataset));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, data::split_names(data));
  if (names.empty()) {
    if (split.empty()) return EvaluationData{data, ""};
    return misuse("data", data, " is no folder of splits; leave --split ", split, " out");
  }
  const std::string chosen = split.empty() ? "val" : split;
  if (!contains(names, chosen)) {
    const std::string near = split.empty() ? "" : nearest_name(split, names);
    std::string given = near.empty() ? "; give" : "; did you mean --split " + shell_word(near) + "?";
    for (const std::string& name : near.empty() ? names : std::vector<std::string>())
      given += concat(given.ends_with(" give") ? "" : " or", " --split ", shell_word(name));
    return misuse("data", data, " holds ", list(names), " and no '", chosen, "'", given);
  }
  std::string note;
  if (split.empty()) note = concat(data, " holds ", list(names), ": val is taken; --split takes another");
  return EvaluationData{concat(data, "/", chosen), note};
}

Result<int> image_channels(const std::string& dataset) {
  DLPIPE_ASSIGN_OR_RETURN(const auto opened, data::Dataset::open(dataset));
  const bool has_images =
      std::any_of(opened->fields().begin(), opened->fields().end(),
                  [](const data::Field& field) { return field.kind == data::FieldKind::kImage; });
  return !has_images ? 0 : opened->pixel_stats().channels == 1 ? 1 : 3;
}

Result<ModelFields> model_fields(const std::string& dataset, bool takes_tokens) {
  DLPIPE_ASSIGN_OR_RETURN(const auto opened,
                          data::Dataset::open(dataset, {}, data::Dataset::IdCheck::kLater));
  ModelFields fields;
  for (const data::Field& field : opened->fields()) {
    const bool is_tokens = field.kind == data::FieldKind::kTensor && field.dtype != DType::kF32;
    const bool is_picture = field.kind == data::FieldKind::kImage || field.kind == data::FieldKind::kLabel;
    if (takes_tokens ? is_tokens : is_picture) {
      fields.names.push_back(field.name);
    } else if (field.name != "path") {
      fields.unused +=
          concat(fields.unused.empty() ? "" : ", ", field.name, " (", data::field_kind_name(field.kind), ")");
    }
  }
  return fields;
}

Status check_samples_have_classes(std::string_view command, const data::Dataset& dataset,
                                  const std::string& unused) {
  const std::span<const int64_t> counts = dataset.class_counts();
  const int64_t without = dataset.size() - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (without == 0) return {};
  return misuse(
      command, without, " of ", dataset.size(), " samples of ", dataset.directory(),
      " have no class; one class per picture is what dlpipe trains on so far",
      unused.empty() ? "" : concat(", not on ", unused), "; ingest with class folders or --label COLUMN",
      unused.empty() ? "" : ", or take the fields to a training of your own by dlpipe.Loader in Python");
}

Status check_input_kind(const std::string& model, bool takes_tokens, const std::string& dataset,
                        int channels) {
  const bool has_images = channels > 0;
  if (takes_tokens != has_images) return {};
  return misuse("data", model, " takes ", takes_tokens ? "sequences of tokens" : "images with classes",
                ", and ", dataset, " holds ", has_images ? "pictures" : "none",
                "; give another dataset or another model");
}

}  // namespace dlpipe::run
