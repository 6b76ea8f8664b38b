// The public face of training: a dataset, a model and a loop from one TrainConfig.
//
//   dlpipe::run::TrainConfig config;
//   config.data = "DST/train";
//   config.model = "resnet18";
//   config.augment = "rrc(224) hflip";
//   config.out = "runs/a";
//   dlpipe::run::Session session(config);
//   const dlpipe::run::TrainOutcome outcome = session.train();
//
// A Session runs the stages of session/options.h one after the other and keeps what they return, with its place
// in the run directory. One thread constructs and trains; the loaders have threads of their own. The engine's
// number of threads is set for the process. Everything here throws dlpipe::Error. Without `out` nothing is
// written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/record/run_directory.h"
#include "dlpipe/run/train/loop/observer.h"
#include "dlpipe/run/train/loop/trainer.h"
#include "dlpipe/run/train/session/data.h"
#include "dlpipe/run/train/session/model.h"
#include "dlpipe/run/train/session/options.h"

namespace dlpipe::run {

class Session {
 public:
  /// Opens the data, builds the model, makes the run directory. `observer` may be null and lives longer.
  /// `ranks`: the processes that compute the run together, each with a Session of the same config; only the first
  /// writes, and the others need no observer. It lives longer; null: this process is alone.
  explicit Session(const TrainConfig& config, const Registries& registries = {},
                   TrainObserver* observer = nullptr, engine::Collective* ranks = nullptr);
  /// Goes on with a run where its latest checkpoint stands: the same losses and weights, bit for bit, as if
  /// it had never stopped. `changes` are options (name, text) that differ (session/resume_rules.h says which may).
  static std::unique_ptr<Session> resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes = {},
                                         const Registries& registries = {}, TrainObserver* observer = nullptr,
                                         engine::Collective* ranks = nullptr);
  ~Session();

  /// Trains to the configured end, or until `stop` is set: then a checkpoint is saved and outcome.stopped is
  /// true. Call once.
  TrainOutcome train(const std::atomic<bool>* stop = nullptr);

  /// Time from then on is in the ledger (as now_ns() counts); by default, from the Session's construction.
  void count_time_from(int64_t ns) { begin_ns_ = ns; }

  /// As the run was asked for, with all that its stages found out.
  const TrainConfig& config() const { return options_.config; }
  /// With --tensor-parallel and --pipeline-parallel, this rank's part of it.
  engine::Module& model() { return *model_; }
  const std::vector<std::string>& classes() const { return data_.model.classes; }
  /// The chain that validation images go through, normalisation included.
  const std::string& validation_augment() const { return data_.model.val_augment; }
  int threads() const { return options_.threads; }

 private:
  /// A run directory, and where the run in it stands.
  struct Place {
    std::unique_ptr<RunDirectory> directory;  // null: nothing is written
    std::string path;                         // of a run that goes on: its directory, whoever writes there
    std::optional<Checkpoint> checkpoint;     // of a run that goes on; none: from its start
    std::optional<TrainConfig> former;        // of a run that goes on: its options before they were changed
  };
  Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
          engine::Collective* ranks, Place place);

  /// Sets the options. Answers the weights to begin with where they bring a model of their own.
  std::optional<WeightsSource> resolve(const TrainConfig& config, const Registries& registries,
                                       engine::Collective* ranks, const Place& place);
  void prepare(std::optional<WeightsSource> init, const Place& place);
  Notes notes() const;
  void tell_of_search(const std::string& key) const;
  void enter(const Place& place);
  void open_data(const Place& place, const WeightsSource* init);
  void make_model(const FirstWeights& weights);
  StartReport start_report() const;
  TrainerSettings trainer_settings() const;

  engine::KernelTable kernels_;  // this run's, whatever else the process runs
  int64_t begin_ns_;
  TrainObserver* observer_;
  SessionOptions options_;
  std::unique_ptr<RunDirectory> directory_;
  TrainerState state_;
  SessionData data_;
  std::shared_ptr<engine::Module> model_;
  int64_t parameters_ = 0;           // elements of all of them
  uint64_t first_weights_hash_ = 0;  // of several ranks: what the model began with, before it was split
  SplitWeights weights_;
  Optimization optimization_;
  MemoryPlan memory_;
};

}  // namespace dlpipe::run
