#include "run/input/dataset.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/sample.h"
#include "io/data/schema.h"
#include "run/input/path_kind.h"

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

/// The error for a missing part. `option` is the one that selects another part.
static Status no_such_part(const std::string& directory, const std::vector<std::string>& names,
                           std::string_view part, std::string_view option) {
  std::string given;
  for (const std::string& name : names)
    given += concat(given.empty() ? "" : " or ", option, " ", shell_word(concat(directory, "/", name)));
  return misuse("data", directory, " holds ", list(names), " but no '", part, "'; give ", given);
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
    return misuse("data", data, " is not a folder of splits; leave --split ", split, " out");
  }
  const std::string chosen = split.empty() ? "val" : split;
  if (!contains(names, chosen)) {
    const std::string near = split.empty() ? "" : nearest_name(split, names);
    std::string given = near.empty() ? "; give" : "; did you mean --split " + shell_text(near) + "?";
    for (const std::string& name : near.empty() ? names : std::vector<std::string>())
      given += concat(given.ends_with(" give") ? "" : " or", " --split ", shell_text(name));
    return misuse("data", data, " holds ", list(names), " but no '", chosen, "'", given);
  }
  std::string note;
  if (split.empty())
    note = concat(data, " holds ", list(names), ": val is used; choose another with --split");
  return EvaluationData{concat(data, "/", chosen), note};
}

Result<int> image_channels(const std::string& dataset) {
  DLPIPE_ASSIGN_OR_RETURN(const auto opened, data::Dataset::open(dataset));
  const bool has_images =
      std::any_of(opened->fields().begin(), opened->fields().end(),
                  [](const data::Field& field) { return field.kind == data::FieldKind::kImage; });
  return !has_images ? 0 : opened->pixel_stats().channels == 1 ? 1 : 3;
}

Result<ModelFields> model_fields(const std::string& dataset, bool takes_tokens,
                                 std::span<const std::string> targets) {
  DLPIPE_ASSIGN_OR_RETURN(const auto opened,
                          data::Dataset::open(dataset, {}, data::Dataset::IdCheck::kLater));
  ModelFields fields;
  for (const data::Field& field : opened->fields()) {
    const bool is_tokens = field.kind == data::FieldKind::kTensor && field.dtype != DType::kF32;
    const bool is_target = targets.empty() ? field.kind == data::FieldKind::kLabel
                                           : std::ranges::find(targets, field.name) != targets.end();
    if (takes_tokens ? is_tokens : field.kind == data::FieldKind::kImage || is_target) {
      fields.names.push_back(field.name);
    } else if (field.name != "path" && field.name != data::kFoldField) {
      fields.unused +=
          concat(fields.unused.empty() ? "" : ", ", field.name, " (", data::field_kind_name(field.kind), ")");
    }
  }
  return fields;
}

/// The number in `bytes` as text, such as "3"; "" if `bytes` have another size.
template <class T>
static std::string text_of_number(std::span<const std::byte> bytes) {
  T number{};
  if (bytes.size() != sizeof number) return {};
  std::memcpy(&number, bytes.data(), sizeof number);
  return concat(number);
}

/// The fold as text, such as "3", from a number or a text. kMisuse for anything else.
static Result<std::string> fold_of(const data::Field& field, std::span<const std::byte> bytes,
                                   std::string_view command) {
  if (field.kind == data::FieldKind::kBytes)
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool is_tensor = field.kind == data::FieldKind::kTensor;
  const std::string number = !is_tensor                   ? ""
                             : field.dtype == DType::kI64 ? text_of_number<int64_t>(bytes)
                             : field.dtype == DType::kI32 ? text_of_number<int32_t>(bytes)
                             : field.dtype == DType::kF32 ? text_of_number<float>(bytes)
                             : field.dtype == DType::kF64 ? text_of_number<double>(bytes)
                                                          : "";
  if (!number.empty()) return number;
  return misuse(command, "the field '", field.name, "' is ", data::field_kind_name(field.kind),
                is_tensor ? concat(" of ", dtype_name(field.dtype), " ", field.shape.to_string()) : "",
                ", not a fold; a fold is a text, or one number: i64, i32, f32 or f64");
}

Result<std::vector<Fold>> folds_of(const data::Dataset& dataset, std::string_view command) {
  const auto field = std::ranges::find(dataset.fields(), data::kFoldField, &data::Field::name);
  if (field == dataset.fields().end())
    return misuse(command, dataset.directory(), " has no field '", data::kFoldField,
                  "'; `dlpipe ingest SRC DST --folds 5` makes a dataset that has");
  std::map<std::string, std::vector<int64_t>> by_value;
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const auto record, data::record_without_image(dataset, *reader, sample));
    DLPIPE_ASSIGN_OR_RETURN(const auto bytes, data::field_bytes(dataset, record, data::kFoldField));
    DLPIPE_ASSIGN_OR_RETURN(const std::string value, fold_of(*field, bytes, command));
    if (value.empty())
      return misuse(command, "sample ", sample, " of ", dataset.directory(), " has no value of '",
                    data::kFoldField, "'; give each sample one");
    by_value[value].push_back(sample);
  }
  std::vector<Fold> folds;
  folds.reserve(by_value.size());
  for (auto& [value, samples] : by_value) folds.push_back({value, std::move(samples)});
  std::ranges::stable_sort(folds, {}, [](const Fold& fold) { return fold.value.size(); });  // 2 before 10
  return folds;
}

Result<FoldSamples> samples_of_fold(const data::Dataset& dataset, const std::string& value,
                                    std::string_view command) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Fold> folds, folds_of(dataset, command));
  std::vector<int64_t> own, others;
  std::vector<std::string> values;
  for (const Fold& fold : folds) {
    values.push_back(fold.value);
    std::vector<int64_t>& to = fold.value == value ? own : others;
    to.insert(to.end(), fold.samples.begin(), fold.samples.end());
  }
  if (own.empty() || others.empty())
    return misuse(command, "--fold ", printable(value), ": the folds of ", dataset.directory(), " are ",
                  quoted_names(values), own.empty() ? "" : ", and a run needs another one to train on");
  std::ranges::sort(others);
  return FoldSamples{concat("fold ", printable(value), " of ", folds.size()),
                     std::make_shared<const std::vector<int64_t>>(std::move(own)),
                     std::make_shared<const std::vector<int64_t>>(std::move(others))};
}

Status check_samples_have_classes(std::string_view command, const data::Dataset& dataset,
                                  const std::string& unused) {
  const std::span<const int64_t> counts = dataset.class_counts();
  const int64_t without = dataset.size() - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (without == 0) return {};
  const bool trains = command == "train";
  return misuse(command, without, " of ", counted(dataset.size(), "sample"), " of ", dataset.directory(),
                without == 1 ? " has" : " have", " no class; ",
                trains ? "--task classify learns" : "this model predicts", " one class per image",
                unused.empty() ? "" : concat(", not ", unused),
                without == dataset.size()
                    ? "; ingest with class folders or --label COLUMN"
                    : "; give them one where it is missing, or leave them out, and ingest again",
                unused.empty() ? ""
                : trains       ? ", or give another --task, or use the fields in your own training loop with "
                                 "dlpipe.Loader in Python"
                               : ", or use a model that was trained on these fields");
}

Status check_input_kind(const std::string& model, bool takes_tokens, const std::string& dataset,
                        int channels) {
  const bool has_images = channels > 0;
  if (takes_tokens != has_images) return {};
  return misuse("data", model, " takes ", takes_tokens ? "sequences of tokens" : "images with classes",
                ", but ", dataset, " contains ", has_images ? "images" : "none",
                "; give another dataset or another model");
}

namespace {

/// The end of a message, such as "3): cat, dog, owl". For a long table, only the part from just before the first difference.
std::string describe_table(std::span<const std::string> names, size_t first_difference) {
  constexpr size_t kShown = 20;
  const size_t begin = names.size() <= kShown ? 0 : first_difference - std::min<size_t>(first_difference, 2);
  const size_t end = std::min(names.size(), begin + kShown);
  std::string text;
  for (size_t i = begin; i < end; ++i) text += (i > begin ? ", " : "") + printable(names[i]);
  return concat(names.size(), "): ", begin > 0 ? concat("... ", begin, ": ") : std::string(), text,
                end < names.size() ? concat(", and ", names.size() - end, " more") : std::string());
}

/// The decimal near `value` with the fewest digits for which `is_it` is true; `value` itself if there is none.
double shortest_where(double value, const std::function<bool(double)>& is_it) {
  constexpr int kMostDigits = 16;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, digits).ptr;
    double rounded = 0;
    if (parse_double(std::string_view(text.data(), static_cast<size_t>(end - text.data())), &rounded) &&
        is_it(rounded))
      return rounded;
  }
  return value;
}

// The op that computes the same as `prep` for `channels` channels: scale = 1 / (255 std), bias = -mean / std. The equations are
// solved in f64. The op has the shortest decimals that give the same f32 numbers again.
std::string normalize_op(const BatchPrep& prep, int64_t channels) {
  std::string mean;
  std::string deviation;
  for (int64_t c = 0; c < std::min<int64_t>(channels, BatchPrep::kMaxChannels); ++c) {
    const float scale = prep.scale[static_cast<size_t>(c)], bias = prep.bias[static_cast<size_t>(c)];
    const double std_c = shortest_where(1.0 / (255.0 * static_cast<double>(scale)), [&](double candidate) {
      return candidate > 0 && static_cast<float>(1.0 / (255.0 * candidate)) == scale;
    });
    const double mean_c = shortest_where(-static_cast<double>(bias) * std_c, [&](double candidate) {
      return static_cast<float>(-candidate / std_c) == bias;
    });
    mean += (c > 0 ? ":" : "") + shortest_decimal(mean_c == 0 ? 0 : mean_c);
    deviation += (c > 0 ? ":" : "") + shortest_decimal(std_c);
  }
  return concat("normalize(mean=", mean, ",std=", deviation, ")");
}

}  // namespace

Result<std::string> training_chain(const std::string& augment, const augment::OpRegistry& registry) {
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain chain, augment::Chain::parse(augment, registry));
  if (chain.contains("normalize")) return augment;
  return augment.empty() ? std::string("normalize") : augment + " normalize";
}

Result<std::string> validation_chain(const std::string& val_augment, const std::string& train_chain,
                                     const Shape& image, const data::PixelStats& stats,
                                     const augment::OpRegistry& registry) {
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain trained, augment::Chain::parse(train_chain, registry));
  std::string expression = val_augment;
  if (expression.empty()) {
    const bool is_cropped = image[0] == image[1] && !trained.resizes_whole_images();
    expression = is_cropped ? concat("resize(", image[0], ") center_crop(", image[0], ")")
                            : concat("resize(", image[0], "x", image[1], ")");
  }
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain own, augment::Chain::parse(expression, registry));
  if (own.contains("normalize")) return expression;
  BatchPrep prep;
  DLPIPE_RETURN_IF_ERROR(trained.fill_prep(prep, {stats.channels, stats.mean, stats.std}));
  return concat(expression, " ", normalize_op(prep, image[2]));
}

Result<std::string> normalization_in(const std::string& chain, int64_t channels,
                                     const augment::OpRegistry& registry,
                                     const augment::ChannelStats& dataset) {
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain parsed, augment::Chain::parse(chain, registry));
  BatchPrep prep;
  DLPIPE_RETURN_IF_ERROR(parsed.fill_prep(prep, dataset));
  return normalize_op(prep, channels);
}

Status check_classes(std::string_view first_name, std::span<const std::string> first,
                     std::string_view second_name, std::span<const std::string> second,
                     std::string_view dataset) {
  if (std::ranges::equal(first, second)) return {};
  const auto same =
      std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
  const auto difference = static_cast<size_t>(same);
  return misuse("classes", first_name, " and ", second_name, " have different classes, starting at number ",
                difference, "; ingest with --classes-from ",
                dataset.empty() ? std::string("DATASET, or a file with the first one's names, one per line")
                                : shell_word(std::string(dataset)),
                ": the classes are\n  ", first_name, " (", describe_table(first, difference), "\n  ",
                second_name, " (", describe_table(second, difference));
}

}  // namespace dlpipe::run
