// The models of a server: by name and version, loaded in the background, replaced when their files change.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/predictor.h"
#include "io/formats/json.h"
#include "serve/kserve.h"

namespace dlpipe::serve {

/// What a model did, for statistics and metrics. Thread-safe.
struct ModelCounters {
  std::atomic<int64_t> requests{0}, failed{0}, images{0}, batches{0};
  std::atomic<int64_t> queue_ns{0}, decode_ns{0}, model_ns{0}, request_ns{0};
  std::atomic<int64_t> last_ms{0};  // when the last request ended, since 1970
};

/// One loaded version of a model. `predictor` belongs to the scheduler's thread; the rest never changes.
struct ServedModel {
  std::string name, version, path;
  std::unique_ptr<run::Predictor> predictor;
  std::shared_ptr<ModelCounters> counters;

  const run::ModelState& state() const { return predictor->model().state; }
  /// {"name", "versions", "platform", "inputs", "outputs"}, as KServe defines them; `versions` are those that are loaded.
  formats::Json metadata(const std::vector<std::string>& versions) const;
};

/// The tensors of an answer for `predictions`, which have no errors. kMisuse for masks of different sizes.
Result<std::vector<WireTensor>> answer_tensors(const ServedModel& model,
                                               std::span<const run::Prediction> predictions);

/// The name of the only input of every model: BYTES [n] or [n,1], the bytes of image files.
inline constexpr std::string_view kImageInput = "image";

class Models {
 public:
  struct Options {
    /// Each is [NAME=]PATH. PATH is a run, a checkpoint or a compiled model, or a repository: a folder of NAME/VERSION/, each
    /// with one of these in it or being a run itself.
    std::vector<std::string> paths;
    run::PredictOptions predict;  // of all models; its weights are those of each
    int64_t poll_ms = 1000;       // how often files are looked at for changes
  };
  /// Loads all models. Throws Error if one cannot be loaded, or if two have the same name.
  explicit Models(const Options& options);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  /// The model; with an empty version the highest one. kNotFound says which there are.
  Result<std::shared_ptr<const ServedModel>> find(std::string_view name, std::string_view version) const;
  /// All loaded models, sorted by name and version.
  std::vector<std::shared_ptr<const ServedModel>> all() const;
  std::vector<std::string> versions(std::string_view name) const;
  /// [{"name", "version", "state", "reason"}] of the repository, for KServe's index.
  formats::Json index() const;
  /// Loads a model of the repository again, or one that was unloaded. Waits until it is there. If that fails, the former one
  /// stays.
  Status load(std::string_view name);
  /// Requests that were accepted are answered.
  Status unload(std::string_view name);
  /// Reloads that failed since the start.
  int64_t failed_reloads() const { return failed_reloads_.load(); }

 private:
  struct Place;  // where one version of a model is, and how it is
  struct Given {
    std::string name, path;
    bool is_repository;
  };
  /// `is_complete` becomes false if a folder can't be listed, for example because the process has no descriptor left.
  std::vector<Place> find_places(bool& is_complete) const;
  std::shared_ptr<ServedModel> open(const Place& place) const;
  void poll();
  /// Loads what is new or changed, forgets what is gone. Returns the first error.
  Status refresh();

  Options options_;
  std::vector<Given> givens_;  // options_.paths
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, std::string>, Place> places_ DLPIPE_GUARDED_BY(mutex_);
  bool stops_ DLPIPE_GUARDED_BY(mutex_) = false;
  Mutex loading_;  // held while models are loaded, by one thread at a time
  std::atomic<int64_t> failed_reloads_{0};
  std::thread poller_;
};

}  // namespace dlpipe::serve
