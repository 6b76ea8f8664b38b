#include "run/input/path_kind.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/source_file.h"
#include "io/formats/safetensors.h"
#include "io/formats/weights_file.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

namespace {

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
  if (!fs::is_regular_file(path, ignored)) return given;  // the bytes of a pipe can be read only once
  std::array<char, 64> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  given.begin.assign(begin.data(), static_cast<size_t>(file.gcount()));
  return given;
}

bool is_run(const Given& given) {
  return given.holds("config.toml") && given.holds("checkpoints");
}

// Hugging Face's save_to_disk writes a state.json, too, next to .arrow files.
bool is_checkpoint(const Given& given) {
  return (given.holds("state.json") && !given.holds("dataset_info.json")) || given.holds("best/state.json") ||
         given.holds("last/state.json") ||
         (given.is_there && fs::path(given.path).filename() == "state.json");
}

bool is_dataset(const Given& given) {
  if (given.holds("data.mdb")) return true;
  const auto splits = data::split_names(given.path);
  return given.is_folder && splits.ok() && !splits->empty();
}

bool is_compiled_model(const Given& given) {
  return !given.begin.empty() && engine::graph::is_graph_file(given.path);
}

// Safetensors, or another program's format (PyTorch's pickles, HDF5), for which open_weights reports how to convert it. A corrupt
// file does not match any kind: the command that opens it reports that it is corrupt.
bool is_weights_file(const Given& given) {
  const bool may_be_safetensors =
      given.begin.size() > 9 && given.begin[8] == '{' && given.begin.find("\":{"sv) != std::string::npos;
  if (may_be_safetensors) return formats::SafetensorsFile::open(given.path).ok();
  // torch.save also writes checkpoint.pth.tar, which is not an archive: a tar file begins differently.
  static constexpr std::array kEndings = {"pt"sv, "pth"sv,  "ckpt"sv, "bin"sv,
                                          "h5"sv, "hdf5"sv, "gguf"sv, "tar"sv};
  return !given.begin.empty() &&
         std::ranges::find(kEndings, data::lower_ending(given.path)) != kEndings.end() &&
         !formats::describe_foreign_weights(given.path, given.begin, {}).empty();
}

// In a large tree the first names are enough: a folder of images has images everywhere.
bool is_image_folder(const Given& given) {
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

bool is_raw_data(const Given& given) {
  if (!given.is_there || given.is_folder) return false;
  if (given.begin.starts_with("\x93NUMPY"sv)) return true;
  data::SourceOptions options;
  options.path = given.path;
  const auto source = data::find_source(options);
  return source.ok() && *source != nullptr;
}

struct Row {
  std::string_view name;
  std::vector<Wanted> uses;
  bool (*is)(const Given&);
  std::string_view advice;  // % means the path
};

// The first row that fits is the kind. The order matters: a run holds checkpoints, a compiled model is a safetensors file, and
// any folder may hold images.
const std::vector<Row>& rows() {
  using enum Wanted;
  static const std::vector<Row> kRows = {
      {"a run",
       {kRun, kModel, kCheckpoint},
       is_run,
       "`dlpipe info %` shows its model, and `dlpipe train --resume %` continues it"},
      {"a checkpoint",
       {kModel, kCheckpoint},
       is_checkpoint,
       "`dlpipe info %` shows it, and `dlpipe eval --ckpt % DATA` evaluates its model"},
      {"a dataset",
       {kDataset, kRawData},
       is_dataset,  // a Caffe LMDB looks the same; ingest tells them apart
       "`dlpipe inspect %` shows it, and `dlpipe eval --ckpt RUN %` evaluates a model on it"},
      {"a compiled model",
       {kModel, kCompiledModel},
       is_compiled_model,
       "`dlpipe info %` shows it, and `dlpipe predict --ckpt % IMAGE` and `dlpipe run %` run it"},
      {"a file of weights",
       {kModel},
       is_weights_file,
       "`dlpipe info %` shows what it contains or how to convert it"},
      {"an ONNX model",
       {kModel},
       [](const Given& given) { return formats::begins_as_onnx(given.begin); },
       "`dlpipe info %` shows it"},
      {"an image",
       {kImage},
       [](const Given& given) { return begins_as_image(given.begin); },
       "`dlpipe predict --ckpt RUN %` classifies it, and `dlpipe ingest FOLDER DATA` reads a folder of "
       "images"},
      {"a config file",
       {kOptions},
       [](const Given& given) { return data::lower_ending(given.path) == "toml" && given.is_there; },
       "`dlpipe train --config % --out RUN` uses it"},
      {"a folder of images",
       {kImage, kRawData},
       is_image_folder,
       "`dlpipe ingest % DATA` makes a dataset from it"},
      {"raw data", {kRawData}, is_raw_data, "`dlpipe ingest % DATA` makes a dataset from it"},
      {"the name of a model",
       {kModelName},
       [](const Given& given) {
         return !given.is_there && engine::ModelRegistry::builtin().find(given.path).ok();
       },
       "`dlpipe info %` shows its layers, and `dlpipe train --model % --data DATA --out RUN` trains it"},
  };
  return kRows;
}

bool contains(const std::vector<Wanted>& uses, Wanted wanted) {
  return std::ranges::find(uses, wanted) != uses.end();
}

const Row* row_of(const Given& given) {
  const auto found = std::ranges::find_if(rows(), [&](const Row& row) { return row.is(given); });
  return found == rows().end() ? nullptr : &*found;
}

std::string with_path(std::string_view advice, const std::string& path) {
  std::string text;
  for (const char c : advice) c == '%' ? text += shell_word(path) : text += c;
  return text;
}

/// For a model in another form, the command that converts it to the required one; else the advice of the kind.
std::string_view advice_of(const Row& row, Wanted wanted) {
  const bool is_model = contains(row.uses, Wanted::kModel);
  if (is_model && wanted == Wanted::kCompiledModel) return "`dlpipe compile % -o model.dlg` compiles it";
  if (is_model && wanted == Wanted::kModelName)
    return "`dlpipe train --init % --data DATA --out RUN` starts from its weights";
  return row.advice;
}

std::string_view words_of(Wanted wanted) {
  static constexpr std::array kWords = {
      "a dataset"sv, "a trained model"sv, "a compiled model"sv,    "a run"sv,       "an image"sv,
      "raw data"sv,  "a config file"sv,   "the name of a model"sv, "a checkpoint"sv};
  return kWords.at(static_cast<size_t>(wanted));
}

}  // namespace

bool PathKind::is(Wanted wanted) const {
  return contains(uses, wanted);
}

std::optional<PathKind> kind_of(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const Row* const row = row_of(look_at(path));
  if (row == nullptr) return std::nullopt;
  return PathKind{std::string(row->name), row->uses, with_path(row->advice, path)};
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
           // Names as in record/run_directory.h.
           return name != "linked" && name != "linked-val";
         });
}

Status refuse_other_kind(std::string_view area, const std::string& path, Wanted wanted) {
  if (path.empty()) return {};
  const Row* const row = row_of(look_at(path));
  if (row == nullptr || contains(row->uses, wanted)) return {};
  if (wanted == Wanted::kDataset && has_dataset(path)) return {};
  return misuse(area, path, " is ", row->name, ", not ", words_of(wanted), "; ",
                with_path(advice_of(*row, wanted), path));
}

// The first bytes of images: ? is any byte, \1 the digit of a PNM, \2 a blank and \3 a blank, a comment or a digit after it.
// Texts may also begin with BM or P5, so BMP and PNM need more. AVIF and HEIC are ISO media files, which consist of boxes; their
// first box is small.
static constexpr std::array kImageBegins = {
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

bool begins_as_image(std::string_view bytes) {
  return std::any_of(kImageBegins.begin(), kImageBegins.end(),
                     [&](std::string_view begin) { return begins_as(begin, bytes); });
}

bool is_inside(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  const fs::path inner = fs::weakly_canonical(path, ignored);
  const fs::path outer = fs::weakly_canonical(folder, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool may_begin_as_image(std::string_view bytes) {
  return std::any_of(kImageBegins.begin(), kImageBegins.end(),
                     [&](std::string_view begin) { return begins_as(begin.substr(0, bytes.size()), bytes); });
}

}  // namespace dlpipe::run
