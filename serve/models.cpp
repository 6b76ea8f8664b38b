#include "serve/models.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/messages.h"
#include "dlpipe/log.h"
#include "run/input/path_kind.h"
#include "run/record/checkpoint.h"

namespace dlpipe::serve {

namespace fs = std::filesystem;
using formats::Json;

namespace {

template <class... Parts>
Status not_found(const Parts&... parts) {
  return {ErrorCode::kNotFound, concat("[serve] ", parts...)};
}

/// What changes if the weights at `path` are replaced: inode, size and time of the file, or of the checkpoint's state.
std::string stamp_of(const std::string& path) {
  std::string file = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const Result<std::string> checkpoint = run::find_checkpoint(path);
    file = (checkpoint.ok() ? *checkpoint : path) + "/state.json";
  }
  struct stat now {};
  if (::stat(file.c_str(), &now) != 0) return "";
  return concat(file, " ", now.st_ino, " ", now.st_size, " ", now.st_mtim.tv_sec, ".", now.st_mtim.tv_nsec);
}

std::optional<int64_t> version_number(const std::string& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

/// The names of the folders in `path`, sorted. `is_complete` becomes false if they can't be listed.
std::vector<std::string> folders_in(const std::string& path, bool& is_complete) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = fs::directory_iterator(path, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::error_code ignored;  // of a link to nothing
    if (at->is_directory(ignored) && at->path().filename().string().front() != '.')
      names.push_back(at->path().filename().string());
  }
  if (error) is_complete = false;
  std::ranges::sort(names);
  return names;
}

/// A folder whose folders have versions, and which is not itself something that can be served.
bool is_repository(const std::string& path) {
  if (run::is_kind(path, run::Wanted::kModel)) return false;
  bool ignored = true;
  return std::ranges::any_of(folders_in(path, ignored), [&](const std::string& name) {
    return std::ranges::any_of(folders_in(concat(path, "/", name), ignored), [](const std::string& version) {
      return version_number(version).has_value();
    });
  });
}

/// What to load of REPOSITORY/NAME/VERSION: the folder itself, or the only file or folder in it.
std::string model_in(const std::string& version) {
  if (run::is_kind(version, run::Wanted::kModel)) return version;
  std::vector<std::string> inside;
  std::error_code error;
  for (auto at = fs::directory_iterator(version, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    if (at->path().filename().string().front() != '.') inside.push_back(at->path().string());
  }
  return inside.size() == 1 ? inside.front() : version;
}

void append(std::string& to, const void* from, size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

WireTensor tensor(std::string name, std::string datatype, std::vector<int64_t> shape) {
  return {std::move(name), std::move(datatype), std::move(shape), {}};
}

WireTensor rows_of_answers(std::string name, std::span<const run::Prediction> predictions) {
  const auto n = static_cast<int64_t>(predictions.size());
  WireTensor rows = tensor(std::move(name), "FP32", {n, static_cast<int64_t>(predictions[0].answers.size())});
  for (const run::Prediction& one : predictions)
    append(rows.bytes, one.answers.data(), one.answers.size() * sizeof(float));
  return rows;
}

std::vector<WireTensor> boxes_of(std::span<const run::Prediction> predictions) {
  const auto n = static_cast<int64_t>(predictions.size());
  size_t most = 0;
  for (const run::Prediction& one : predictions) most = std::max(most, one.boxes.size());
  const auto k = static_cast<int64_t>(most);
  std::vector<WireTensor> outputs = {tensor("boxes", "FP32", {n, k, 4}), tensor("scores", "FP32", {n, k}),
                                     tensor("labels", "INT64", {n, k}), tensor("counts", "INT64", {n})};
  for (const run::Prediction& one : predictions) {
    for (size_t i = 0; i < most; ++i) {
      const bool is_there = i < one.boxes.size();
      for (size_t side = 0; side < 4; ++side) {
        const auto value = static_cast<float>(is_there ? one.boxes[i].box[side] : 0);
        append(outputs[0].bytes, &value, sizeof value);
      }
      const auto score = static_cast<float>(is_there ? one.boxes[i].score : 0);
      append(outputs[1].bytes, &score, sizeof score);
      const int64_t label = is_there ? static_cast<int64_t>(one.boxes[i].number) : -1;
      append(outputs[2].bytes, &label, sizeof label);
    }
    const auto count = static_cast<int64_t>(one.boxes.size());
    append(outputs[3].bytes, &count, sizeof count);
  }
  return outputs;
}

struct OutputRow {
  const char* task;
  const char* name;
  const char* datatype;
  int axes;  // after the batch, of unknown size; 0: as many values as classes or targets
};
constexpr OutputRow kOutputs[] = {
    {"classify", "probabilities", "FP32", 0},
    {"classify", "label", "BYTES", -1},
    {"multilabel", "probabilities", "FP32", 0},
    {"regress", "values", "FP32", 0},
    {"segment", "mask", "UINT8", 2},
    {"detect", "boxes", "FP32", 2},
    {"detect", "scores", "FP32", 1},
    {"detect", "labels", "INT64", 1},
    {"detect", "counts", "INT64", -1},
};

}  // namespace

Json ServedModel::metadata(const std::vector<std::string>& version_names) const {
  Json versions_json = Json::array();
  for (const std::string& one : version_names) versions_json.push_back(one);
  Json outputs = Json::array();
  for (const OutputRow& row : kOutputs) {
    if (state().task.name != row.task) continue;
    Json shape = Json::array();
    shape.push_back(-1);
    if (row.axes == 0) shape.push_back(static_cast<int64_t>(state().classes.size()));
    for (int axis = 0; axis < row.axes; ++axis)
      shape.push_back(axis == 1 && std::string_view(row.name) == "boxes" ? 4 : -1);
    outputs.push_back(
        Json::object({{"name", row.name}, {"datatype", row.datatype}, {"shape", std::move(shape)}}));
  }
  Json input_shape = Json::array();
  input_shape.push_back(-1);
  Json inputs = Json::array();
  inputs.push_back(
      Json::object({{"name", kImageInput}, {"datatype", "BYTES"}, {"shape", std::move(input_shape)}}));
  Json classes = Json::array();
  for (const std::string& one : state().classes) classes.push_back(one);
  return Json::object(
      {{"name", name},
       {"versions", std::move(versions_json)},
       {"platform", "dlpipe"},
       {"inputs", std::move(inputs)},
       {"outputs", std::move(outputs)},
       {"parameters", Json::object({{"task", state().task.name}, {"classes", std::move(classes)}})}});
}

Result<std::vector<WireTensor>> answer_tensors(const ServedModel& model,
                                               std::span<const run::Prediction> predictions) {
  const std::string& task = model.state().task.name;
  const auto n = static_cast<int64_t>(predictions.size());
  if (task == "detect") return boxes_of(predictions);
  if (task == "segment") {
    const run::Prediction& first = predictions[0];
    WireTensor masks = tensor("mask", "UINT8", {n, first.height, first.width});
    for (const run::Prediction& one : predictions) {
      if (one.height != first.height || one.width != first.width)
        return misuse("serve", "the images of a request have different sizes (", first.width, "x",
                      first.height, " and ", one.width, "x", one.height,
                      "), so their masks are not a tensor; send one image per request");
      append(masks.bytes, one.whole_mask.data(), one.whole_mask.size());
    }
    return std::vector<WireTensor>{std::move(masks)};
  }
  if (task == "regress") return std::vector<WireTensor>{rows_of_answers("values", predictions)};
  std::vector<WireTensor> outputs = {rows_of_answers("probabilities", predictions)};
  if (task == "classify") {
    std::vector<std::string> labels;
    for (const run::Prediction& one : predictions) labels.push_back(one.top.front().first);
    outputs.push_back(bytes_tensor("label", {n}, labels));
  }
  return outputs;
}

struct Models::Place {
  std::string name, version;
  std::string path;         // of the model
  std::string stamp = {};   // of the files that `model` was loaded from, or tried to be
  std::string reason = {};  // why there is no model
  bool is_wanted = true;    // false: unloaded by a client
  std::shared_ptr<ServedModel> model = {};
};

std::vector<Models::Place> Models::find_places(bool& is_complete) const {
  std::vector<Place> places;
  for (const Given& given : givens_) {
    if (!given.is_repository) {
      places.push_back({.name = given.name, .version = "1", .path = given.path});
      continue;
    }
    for (const std::string& model : folders_in(given.path, is_complete)) {
      const std::string folder = concat(given.path, "/", model);
      for (const std::string& version : folders_in(folder, is_complete)) {
        if (!version_number(version)) continue;
        places.push_back({.name = model, .version = version, .path = model_in(concat(folder, "/", version))});
      }
    }
  }
  return places;
}

std::shared_ptr<ServedModel> Models::open(const Place& place) const {
  throw_if_error(run::refuse_other_kind("serve", place.path, run::Wanted::kModel));
  run::PredictOptions predict = options_.predict;
  predict.model.weights = place.path;
  auto model = std::make_shared<ServedModel>();
  model->name = place.name;
  model->version = place.version;
  model->path = place.path;
  model->predictor = std::make_unique<run::Predictor>(predict);
  model->counters = std::make_shared<ModelCounters>();
  return model;
}

Models::Models(const Options& options) : options_(options) {
  for (const std::string& given : options_.paths) {
    const size_t equals = given.find('=');
    const bool is_named = equals != std::string::npos && equals > 0 && given.find('/') > equals;
    std::string path = is_named ? given.substr(equals + 1) : given;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    std::string name = is_named ? given.substr(0, equals) : fs::path(path).stem().string();
    const bool holds_models = is_repository(path);
    givens_.push_back({std::move(name), std::move(path), holds_models});
  }
  std::set<std::pair<std::string, std::string>> seen;
  bool is_complete = true;
  for (const Place& place : find_places(is_complete)) {
    if (!seen.emplace(place.name, place.version).second)
      refuse("serve", "two models are called ", in_quotes(place.name),
             "; give one of them another name: NAME=PATH");
  }
  throw_if_error(refresh());
  poller_ = std::thread([this] { poll(); });
}

Models::~Models() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (poller_.joinable()) poller_.join();
}

void Models::poll() {
  MutexLock lock(mutex_);
  while (!stops_) {
    lock.wait_until(changed_, std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.poll_ms));
    if (stops_) return;
    lock.unlock();
    const Status status = refresh();
    if (!status.ok()) log(LogLevel::kWarning, status.message());
    lock.lock();
  }
}

Status Models::refresh() {
  const MutexLock one_at_a_time(loading_);
  bool is_complete = true;
  const std::vector<Place> found = find_places(is_complete);
  Status first;
  std::set<std::pair<std::string, std::string>> there;
  for (const Place& place : found) {
    const std::pair key(place.name, place.version);
    there.insert(key);
    const std::string stamp = stamp_of(place.path);
    Place known = place;
    {
      const MutexLock lock(mutex_);
      const auto at = places_.find(key);
      if (at != places_.end()) known = at->second;
    }
    // Files that are being replaced have no stamp for a moment: the model stays.
    if (!known.is_wanted || (known.stamp == stamp && (known.model != nullptr || !known.reason.empty())))
      continue;
    if (stamp.empty() && known.model != nullptr) continue;
    known.path = place.path;
    known.stamp = stamp;
    try {
      std::shared_ptr<ServedModel> model = open(known);
      if (known.model != nullptr) {
        model->counters = known.model->counters;
        log(LogLevel::kInfo,
            concat("[serve] loaded model ", printable(known.name), " version ", known.version, " again"));
      }
      known.model = std::move(model);
      known.reason.clear();
    } catch (...) {
      const Status status = status_from_current_exception("serve");
      known.reason = status.message();
      if (known.model != nullptr) ++failed_reloads_;
      if (first.ok())
        first =
            status.with_context(concat("model ", printable(known.name), " version ", known.version, ": "));
    }
    const MutexLock lock(mutex_);
    const auto at = places_.find(key);
    if (at != places_.end() && !at->second.is_wanted) continue;  // a client unloaded it meanwhile
    places_[key] = std::move(known);
  }
  if (!is_complete) return first;
  const MutexLock lock(mutex_);
  std::erase_if(places_, [&](const auto& place) { return !there.contains(place.first); });
  return first;
}

Result<std::shared_ptr<const ServedModel>> Models::find(std::string_view name,
                                                        std::string_view version) const {
  const MutexLock lock(mutex_);
  std::shared_ptr<const ServedModel> best;
  int64_t best_number = -1;
  bool is_known = false;
  std::vector<std::string> names;
  for (const auto& [key, place] : places_) {
    if (place.model == nullptr) continue;
    names.push_back(key.first);
    if (key.first != name) continue;
    is_known = true;
    const int64_t number = version_number(key.second).value_or(0);
    if (version.empty() ? number > best_number : key.second == version) {
      best = place.model;
      best_number = number;
    }
  }
  if (best != nullptr) return best;
  if (is_known) return not_found("model ", in_quotes(name), " has no version ", in_quotes(version));
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return not_found("there is no model ", in_quotes(name),
                   names.empty() ? "" : concat("; there are ", quoted_names(names)));
}

std::vector<std::shared_ptr<const ServedModel>> Models::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& [key, place] : places_)
    if (place.model != nullptr) models.push_back(place.model);
  return models;
}

std::vector<std::string> Models::versions(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& model : all())
    if (model->name == name) names.push_back(model->version);
  return names;
}

Json Models::index() const {
  const MutexLock lock(mutex_);
  Json list = Json::array();
  for (const auto& [key, place] : places_) {
    list.push_back(Json::object({{"name", key.first},
                                 {"version", key.second},
                                 {"state", place.model != nullptr ? "READY" : "UNAVAILABLE"},
                                 {"reason", place.model != nullptr ? ""
                                            : place.is_wanted      ? place.reason
                                                                   : "unloaded"}}));
  }
  return list;
}

Status Models::load(std::string_view name) {
  {
    const MutexLock lock(mutex_);
    for (auto& [key, place] : places_) {
      if (key.first != name) continue;
      place.is_wanted = true;
      place.stamp.clear();
    }
  }
  [[maybe_unused]] const Status of_all = refresh();  // of this model: its reason
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, place] : places_)
      if (key.first == name && !place.reason.empty()) return {ErrorCode::kMisuse, place.reason};
  }
  return find(name, "").status();
}

Status Models::unload(std::string_view name) {
  const MutexLock lock(mutex_);
  bool is_known = false;
  for (auto& [key, place] : places_) {
    if (key.first != name) continue;
    is_known = true;
    place.is_wanted = false;
    place.model = nullptr;
  }
  return is_known ? Status() : not_found("there is no model ", in_quotes(name));
}

}  // namespace dlpipe::serve
