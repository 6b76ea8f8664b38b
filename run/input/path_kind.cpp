#include "dlpipe/run/input/path_kind.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/formats/foreign_weights.h"
#include "dlpipe/io/formats/safetensors.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

namespace {

/// A path, and what every kind is told by.
struct Given {
  std::string path;
  bool is_there = false;
  bool is_folder = false;
  std::string begin;  // the first bytes of a file

  bool holds(const char* name) const {
    std::error_code ignored;
    return is_folder && fs::exists(fs::path(path) / name, ignored);
  }
};

Given look_at(const std::string& path) {
  Given given{path, false, false, {}};
  std::error_code ignored;
  given.is_there = fs::exists(path, ignored);
  given.is_folder = fs::is_directory(path, ignored);
  if (!fs::is_regular_file(path, ignored)) return given;  // a pipe's bytes are read once
  std::array<char, 64> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  given.begin.assign(begin.data(), static_cast<size_t>(file.gcount()));
  return given;
}

bool is_safetensors(const Given& given) {
  return given.begin.size() > 9 && given.begin[8] == '{' && given.begin.find("\":{"sv) != std::string::npos;
}

// PyTorch's pickles, HDF5 and the like: open_weights says how they are converted.
bool is_foreign_weights(const Given& given) {
  const std::string ending = data::lower_ending(given.path);
  // checkpoint.pth.tar is no archive but what torch.save wrote: a tar begins otherwise.
  static constexpr std::array kEndings = {"pt"sv, "pth"sv,  "ckpt"sv, "bin"sv,
                                          "h5"sv, "hdf5"sv, "gguf"sv, "tar"sv};
  return !given.begin.empty() && std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end() &&
         !formats::describe_foreign_weights(given.path, given.begin, {}).empty();
}

// WebP, WAVE and AVI are RIFF files of that kind.
bool is_riff_of(std::string_view bytes, std::string_view kind) {
  return bytes.starts_with("RIFF"sv) && bytes.size() >= 12 && bytes.substr(8, 4) == kind;
}

bool is_sound(const Given& given) {
  static constexpr std::array kBegins = {"fLaC"sv, "OggS"sv, "ID3"sv};
  return is_riff_of(given.begin, "WAVE") ||
         std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return given.begin.starts_with(begin); });
}

// Of a large tree the first names are enough: a folder of pictures has them everywhere.
bool holds_pictures(const Given& given) {
  if (!given.is_folder) return false;
  constexpr int kMostLookedAt = 2000;
  int looked_at = 0;
  bool found = false;
  (void)data::find_below(given.path, [&](const fs::directory_entry& entry) {
    found = data::has_image_name(entry.path().string());
    return found || ++looked_at == kMostLookedAt;
  });
  return found;
}

const data::SourceRecord* source_of(const Given& given) {
  data::SourceOptions options;
  options.path = given.path;
  const auto found = data::find_source(options);
  return found.ok() ? *found : nullptr;
}

bool is_packed_folder(const Given& given) {
  const std::string ending = data::lower_ending(given.path);
  return ending == "zip" || ending == "7z" || ending == "rar";
}

bool is_model_name(const Given& given) {
  return !given.is_there && engine::ModelRegistry::builtin().find(given.path).ok();
}

struct Row {
  std::string_view name;
  std::vector<Wanted> uses;
  bool (*is)(const Given&);
  std::string_view advice;  // % stands for the path
  /// Other advice where one of these was wanted.
  std::vector<std::pair<Wanted, std::string_view>> advice_for = {};
};

// The order matters: the first row that fits is the kind. A run holds checkpoints, a compiled model is a safetensors file, and
// a folder that is nothing else may hold pictures.
const std::vector<Row>& rows() {
  using enum Wanted;
  static const std::vector<Row> kRows = {
      {"a run",
       {kRun, kModel, kCheckpoint},
       [](const Given& given) { return given.holds("config.toml") && given.holds("checkpoints"); },
       "`dlpipe info %` shows its model, `dlpipe doctor %` who waited for whom, and `dlpipe train --resume "
       "%` "
       "goes on with it",
       {{kCompiledModel, "`dlpipe compile % -o model.dlg` makes one of its model"},
        {kPicture, "`dlpipe predict --ckpt % PICTURE` takes its model"},
        {kOptions, "`dlpipe train --config %/config.toml --out ANOTHER` runs the same again"},
        {kModelName, "`dlpipe train --init % --data DATA --out RUN` begins with its weights"}}},
      {"a checkpoint",
       {kModel, kCheckpoint},
       [](const Given& given) {
         // Hugging Face's save_to_disk leaves a state.json, too, beside .arrow files.
         return (given.holds("state.json") && !given.holds("dataset_info.json")) ||
                given.holds("best/state.json") || given.holds("last/state.json") ||
                (given.is_there && fs::path(given.path).filename() == "state.json");
       },
       "`dlpipe info %` shows it, and `dlpipe eval --ckpt % DATA` judges its model",
       {{kCompiledModel, "`dlpipe compile % -o model.dlg` makes one of it"},
        {kRun, "give the folder of the run that it lies in"},
        {kModelName, "`dlpipe train --init % --data DATA --out RUN` begins with its weights"}}},
      {"a dataset",
       {kDataset, kRawData},  // Caffe's LMDBs look the same from outside; ingest tells
       [](const Given& given) { return given.holds("data.mdb"); },
       "`dlpipe inspect %` shows it",
       {}},
      {"a folder of datasets",
       {kDataset, kRawData},  // as one; pictures may lie beside it
       [](const Given& given) {
         const auto splits = data::split_names(given.path);
         return given.is_folder && splits.ok() && !splits->empty();
       },
       "`dlpipe inspect %` shows them",
       {}},
      {"a compiled model",
       {kModel, kCompiledModel},
       [](const Given& given) { return is_safetensors(given) && engine::graph::is_graph_file(given.path); },
       "`dlpipe info %` shows it, and `dlpipe predict --ckpt % PICTURE` and `dlpipe run %` run it",
       {{kModelName, "`dlpipe train --init % --data DATA --out RUN` begins with its weights"},
        {kCheckpoint,
         "it holds a graph made to run, with weights changed for that; `dlpipe export-weights RUN -o "
         "FILE.safetensors` writes those of the run that it was compiled from"}}},
      {"a damaged file of weights",  // who reads it says where
       {kModel, kCompiledModel},
       [](const Given& given) {
         return is_safetensors(given) && !formats::SafetensorsFile::open(given.path).ok();
       },
       "`dlpipe info %` says what is wrong with it",
       {}},
      {"a file of weights",
       {kModel},
       is_safetensors,
       "`dlpipe info %` shows what it holds",
       {{kCompiledModel, "`dlpipe compile % -o model.dlg` makes one of it"},
        {kModelName, "`dlpipe train --init % --data DATA --out RUN` begins with it"}}},
      {"a file of another program's weights",
       {kModel},
       is_foreign_weights,
       "`dlpipe info %` shows what it holds, or says how to convert it",
       {}},
      {"an ONNX model",
       {kModel},
       [](const Given& given) { return formats::begins_as_onnx(given.begin); },
       "`dlpipe info %` shows it, and `dlpipe compile % -o model.dlg` makes a compiled model of it",
       {{kCompiledModel, "`dlpipe compile % -o model.dlg` makes one of it"},
        {kModelName, "`dlpipe train --init % --data DATA --out RUN` begins with it"}}},
      {"a picture",
       {kPicture},
       [](const Given& given) { return begins_as_picture(given.begin); },
       "`dlpipe predict --ckpt RUN %` classifies it",
       {{kDataset, "a dataset is made of a folder that holds one folder of pictures per class"},
        {kRawData, "give a folder that holds one folder of pictures per class"}}},
      {"a sound file", {}, is_sound, "dlpipe takes pictures and text, no sound"},
      {"an array",
       {kRawData},
       [](const Given& given) { return given.begin.starts_with("\x93NUMPY"sv); },
       "`dlpipe run MODEL.dlg --input % -o OUT.npy` runs a compiled model on it",
       {{kDataset, "`dlpipe ingest % DATA` makes a dataset of an array of pictures"}}},
      {"a file of options",
       {kOptions},
       [](const Given& given) { return data::lower_ending(given.path) == "toml" && given.is_there; },
       "`dlpipe train --config % --out RUN` takes them",
       {}},
      {"a packed folder", {}, is_packed_folder, "unpack it, and give the folder", {}},
      {"a folder of pictures",
       {kPicture, kRawData},
       holds_pictures,
       "`dlpipe ingest % DATA` makes a dataset of them",
       {}},
      {"raw data",
       {kRawData},
       [](const Given& given) { return given.is_there && !given.is_folder && source_of(given) != nullptr; },
       "`dlpipe ingest % DATA` makes a dataset of it",
       {}},
      {"the name of a model",
       {kModelName},
       is_model_name,
       "`dlpipe info %` shows its layers, and `dlpipe train --model % --data DATA --out RUN` trains one",
       {}},
  };
  return kRows;
}

/// Of a dataset with images of one class each, or with tokens: what trains on it; else "".
std::string training_offer(const Given& given, const std::vector<std::string>& splits) {
  if (!splits.empty() && std::find(splits.begin(), splits.end(), "train") == splits.end()) return "";
  const auto dataset =
      data::Dataset::open(given.path, splits.empty() ? "" : "train", data::Dataset::IdCheck::kLater);
  if (!dataset.ok() || (*dataset)->size() == 0) return "";
  const auto fields = (*dataset)->fields();
  const auto has = [&](data::FieldKind kind) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const data::Field& field) { return field.kind == kind; });
  };
  const bool has_images = has(data::FieldKind::kImage);
  const auto counts = (*dataset)->class_counts();
  const bool has_classes = std::accumulate(counts.begin(), counts.end(), int64_t{0}) == (*dataset)->size();
  if (has_images ? !has_classes : !has(data::FieldKind::kTensor)) return "";
  constexpr int64_t kUsualBatch = 128;
  const auto samples = static_cast<uint64_t>((*dataset)->size());
  return concat(
      ", and `dlpipe train --data % --model ", has_images ? "resnet18" : "gpt_char",
      (*dataset)->size() < kUsualBatch ? concat(" --batch ", std::bit_floor(samples)) : std::string(),
      " --out runs/a` trains on ", splits.empty() ? "it" : "its train");
}

/// What a dataset or a folder of them is good for, % for its path.
std::string dataset_advice(const Given& given, const Row& row, std::optional<Wanted> wanted) {
  const auto listed = data::split_names(given.path);
  const std::vector<std::string> splits = listed.ok() ? *listed : std::vector<std::string>();
  if (wanted != Wanted::kPicture) return concat(row.advice, training_offer(given, splits));
  const auto has = [&](const char* name) {
    return std::find(splits.begin(), splits.end(), name) != splits.end();
  };
  const std::string split = splits.empty() || has("val") ? "" : has("test") ? "test" : splits.front();
  return concat("`dlpipe eval --ckpt RUN %", split.empty() ? "" : concat(" --split ", shell_word(split)),
                " --predictions -` answers for each ", splits.empty() ? "of its samples" : "sample of its ",
                splits.empty()  ? ""
                : split.empty() ? "val"
                                : split);
}

std::string with_path(std::string_view advice, const std::string& path) {
  std::string text;
  for (const char c : advice) c == '%' ? text += shell_word(path) : text += c;
  return text;
}

std::string_view words_of(Wanted wanted) {
  static constexpr std::array kWords = {
      "dataset"sv,  "trained model"sv,   "compiled model"sv,  "run"sv,       "picture"sv,
      "raw data"sv, "file of options"sv, "name of a model"sv, "checkpoint"sv};
  return kWords.at(static_cast<size_t>(wanted));
}

const Row* row_of(const Given& given) {
  const auto found =
      std::find_if(rows().begin(), rows().end(), [&](const Row& row) { return row.is(given); });
  return found == rows().end() ? nullptr : &*found;
}

bool contains(const std::vector<Wanted>& uses, Wanted wanted) {
  return std::find(uses.begin(), uses.end(), wanted) != uses.end();
}

std::string advice_of(const Given& given, const Row& row, std::optional<Wanted> wanted) {
  if (contains(row.uses, Wanted::kDataset)) return with_path(dataset_advice(given, row, wanted), given.path);
  for (const auto& [of, other] : row.advice_for) {
    if (of == wanted) return with_path(other, given.path);
  }
  return with_path(row.advice, given.path);
}

}  // namespace

bool PathKind::is(Wanted wanted) const {
  return contains(uses, wanted);
}

std::optional<PathKind> kind_of(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const Given given = look_at(path);
  const Row* const row = row_of(given);
  if (row == nullptr) return std::nullopt;
  return PathKind{std::string(row->name), row->uses, advice_of(given, *row, std::nullopt)};
}

bool is_kind(const std::string& path, Wanted wanted) {
  if (path.empty()) return false;
  const Row* const row = row_of(look_at(path));
  return row != nullptr && contains(row->uses, wanted);
}

bool has_dataset(const std::string& path) {
  if (look_at(path).holds("data.mdb")) return true;
  const auto splits = data::split_names(path);
  return splits.ok() && std::any_of(splits->begin(), splits->end(), [](const std::string& name) {
           // As record/run_directory.h calls them.
           return name != "linked" && name != "linked-val";
         });
}

Status refuse_other_kind(std::string_view area, const std::string& path, Wanted wanted) {
  if (path.empty()) return {};
  const Given given = look_at(path);
  if (wanted == Wanted::kCompiledModel && !given.is_there && row_of(given) == nullptr)
    return {ErrorCode::kNotFound, concat("[", area, "] there is no ", path, "; `dlpipe compile RUN -o ",
                                         shell_word(path), "` makes a compiled model of a run")};
  const Row* const row = row_of(given);
  if (row == nullptr || contains(row->uses, wanted)) return {};
  if (wanted == Wanted::kDataset && has_dataset(path)) return {};
  return misuse(area, path, " is ", row->name, " and no ", words_of(wanted), "; ",
                advice_of(given, *row, wanted));
}

// What pictures begin with: ? is any byte, \1 the digit of a PNM, \2 a blank and \3 a blank, a comment or a digit behind it. Texts
// begin with BM and P5, too, so more is asked of BMP and PNM. AVIF and HEIC are boxes of ISO's media files, the first of them small.
static constexpr std::array kPictureBegins = {
    "\xff\xd8"sv,    "\x89PNG"sv,        "DLPRAW1\n"sv,      "GIF8"sv,    "II*\0"sv,
    "MM\0*"sv,       "RIFF????WEBP"sv,   "BM????\0\0\0\0"sv, "P\1\2\3"sv, "P\1#"sv,
    "\0\0\0?ftyp"sv, "\0\0\0\x0cJXL "sv, "\0\0\0\x0cjP  "sv, "\xff\x0a"sv};

static bool fits(char byte, char begin) {
  const bool is_blank = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
  switch (begin) {
    case '?':
      return true;
    case '\1':
      return byte >= '1' && byte <= '6';
    case '\2':
      return is_blank;
    case '\3':
      return is_blank || byte == '#' || (byte >= '0' && byte <= '9');
    default:
      return byte == begin;
  }
}

static bool begins_as(std::string_view begin, std::string_view bytes) {
  return bytes.size() >= begin.size() &&
         std::equal(begin.begin(), begin.end(), bytes.begin(),
                    [](char wanted, char byte) { return fits(byte, wanted); });
}

bool begins_as_picture(std::string_view bytes) {
  return std::any_of(kPictureBegins.begin(), kPictureBegins.end(),
                     [&](std::string_view begin) { return begins_as(begin, bytes); });
}

bool may_begin_as_picture(std::string_view bytes) {
  return std::any_of(kPictureBegins.begin(), kPictureBegins.end(),
                     [&](std::string_view begin) { return begins_as(begin.substr(0, bytes.size()), bytes); });
}

}  // namespace dlpipe::run
