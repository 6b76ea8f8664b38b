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
// A Session owns loaders, model, optimizer and its place in the run directory. One thread constructs and
// trains; the loaders have threads of their own. The engine's number of threads is set for the process.
// Everything here throws dlpipe::Error. Without `out` nothing is written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/record/receipt.h"
#include "dlpipe/run/record/run_directory.h"
#include "dlpipe/run/train/observer.h"
#include "dlpipe/run/train/trainer.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

class Session {
 public:
  /// Opens the data, builds the model, makes the run directory. `observer` may be null and lives longer.
  explicit Session(const TrainConfig& config, const Registries& registries = {},
                   TrainObserver* observer = nullptr);
  /// Goes on with a run where its latest checkpoint stands: the same losses and weights, bit for bit, as if
  /// it had never stopped. `changes` are options (name, text) that differ (resume_rules.h says which may).
  static std::unique_ptr<Session> resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes = {},
                                         const Registries& registries = {},
                                         TrainObserver* observer = nullptr);
  ~Session();

  /// Trains to the configured end, or until `stop` is set: then a checkpoint is saved and outcome.stopped is
  /// true. Call once.
  TrainOutcome train(const std::atomic<bool>* stop = nullptr);

  /// Time from then on is in the ledger (as now_ns() counts); by default, from the Session's construction.
  void count_time_from(int64_t ns) { settings_.begin_ns = ns; }

  const TrainConfig& config() const { return config_; }
  engine::Module& model() { return *model_; }
  const std::vector<std::string>& classes() const { return settings_.model_state.classes; }
  /// The chain that validation images go through, normalisation included.
  const std::string& validation_augment() const { return settings_.model_state.val_augment; }
  int threads() const { return threads_; }

 private:
  Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
          std::unique_ptr<RunDirectory> directory, std::optional<Checkpoint> checkpoint,
          std::optional<TrainConfig> former);
  void check_options();
  void note_what_overfitting_leaves_out() const;
  void check_device(const engine::OptimizerRecord& optimizer);
  bool is_on_host() const { return device_->is_host(); }
  void set_threads();
  void open_train();
  void take_initial_normalization(int channels);
  void take_input_sizes(const pipeline::Loader& loader, const std::string& train_chain);
  void open_val();
  void build_model();
  void initialize_weights();
  void initialize_from_images();
  void load_initial_weights();
  void freeze_parameters();
  void checkpoint_activations();
  void build_optimizer();
  engine::OptimizerArguments optimizer_arguments() const;
  void plan_memory();
  std::string memory_advice() const;
  void restore(const Checkpoint& checkpoint);
  void use_one_batch();
  void write_results(const TrainOutcome& outcome) const;
  void note(const std::string& text) const;
  pipeline::LoaderOptions loader_options() const;
  /// Batches go to the run's device.
  void use_device(pipeline::LoaderOptions& options) const;

  TrainConfig config_;
  std::optional<TrainConfig> former_;  // of a resumed run: before it was changed
  Registries registries_;
  TrainObserver* observer_;
  int threads_ = 1;
  Device* device_ = nullptr;
  bool is_resumed_ = false;
  std::optional<WeightsSource> init_;        // of a new run with --init, until its weights are in the model
  std::unique_ptr<RunDirectory> directory_;  // null: nothing is written
  std::unique_ptr<BatchSource> train_;
  std::unique_ptr<pipeline::Loader> val_;
  data::PixelStats pixel_stats_;
  std::string dataset_id_;
  std::string pipeline_id_;
  std::string subset_;
  int64_t left_out_ = 0;  // samples that each epoch leaves out
  std::shared_ptr<engine::Module> model_;
  std::unique_ptr<engine::Optimizer> optimizer_;
  std::unique_ptr<engine::Ema> ema_;
  TrainerSettings settings_;
  TrainerState state_;
  MemoryPlan memory_;
};

}  // namespace dlpipe::run
