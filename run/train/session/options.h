// The first stage of a session: resolves the names in a TrainConfig and checks its values.
//
// A session is stages that return values, and each can be used alone:
//
//   resolve_options, open_device_sums (here) -> link_images (linked_data.h) -> open_data, with_data (data.h)
//     -> build_model, split_model, build_optimizer (model.h) -> plan_memory (plans.h) -> Trainer (trainer.h)
//
//   const SessionOptions options = resolve_options(config);
//   SessionData data = open_data(options);
//   const auto model = build_model(options, data);
//   while (auto batch = value_or_throw(data.train->next())) {
//     const engine::Tensor logits = (*model)(batch_input(*batch).pixels);
//     throw_if_error(data.train->release(*batch));
//   }
//
// Stages throw dlpipe::Error and report to `notes` what users should know. Session (session.h) runs them all and adds the run
// directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/models.h"
#include "dlpipe/optim.h"
#include "engine/collective/collective.h"
#include "run/config/config.h"
#include "run/train/step/train_step.h"
#include "run/use/evaluate.h"

namespace dlpipe::run {

/// A warning is something that the user may have to act on: unreliable results, skipped files, options without effect.
enum class Tone : uint8_t { kNote, kWarning };
/// Receives one line for the user; may be empty.
using Notes = std::function<void(const std::string&, Tone)>;
inline void tell(const Notes& notes, const std::string& text) {
  if (notes) notes(text, Tone::kNote);
}
inline void warn(const Notes& notes, const std::string& text) {
  if (notes) notes(text, Tone::kWarning);
}

/// The registries' records must outlive it. The engine's number of threads is global to the process: the program calls
/// engine::set_engine_threads(threads), as Session does.
struct SessionOptions {
  TrainConfig config;  // with values for all options of the chosen optimizer, schedule and loss
  Registries registries;
  const engine::ModelRecord* model = nullptr;
  std::shared_ptr<const engine::ModelRecord> graph;  // the model, if no code builds it; null: a built-in one
  const engine::OptimizerRecord* optimizer = nullptr;
  Device* device = nullptr;
  int threads = 1;
  TrainStepOptions step;
  EvalOptions eval;
  Interval val_every;
  Interval checkpoint_every;
  uint64_t memory_limit = 0;  // bytes; 0: none
  uint64_t cache_bytes = 0;   // of --cache, of all processes together; 0: no separate limit
  engine::RankGrid ranks;
  std::shared_ptr<engine::DeviceSums> device_sums;  // with --exact off on several GPUs

  bool is_on_host() const { return device->is_host(); }
  /// --overfit-batch: one batch, repeated, and nothing else.
  bool overfits() const { return config.overfit_batch > 0; }
};

/// "--pipeline-parallel 2 --tensor-parallel 4", only those that are given.
std::string replica_options(const TrainConfig& config);

/// For a run without a validation set: throws with --early-stop.
void check_early_stop(const TrainConfig& config);

/// --milestones. Throws if one is invalid.
std::vector<double> milestones_of(const TrainConfig& config);

/// The options of the config's loss that evaluation uses, too: labels are not smoothed, and all classes weigh the same.
LossArguments evaluation_loss_options(const TrainConfig& config);

/// Sets what steps and validation use from the config: loss, metrics, targets. `state` is the task as it was bound to the data.
void set_task(SessionOptions& options, const TaskState& state, int64_t outputs,
              std::span<const double> class_weights = {});

/// Does not open or write files. kMisuse names the option.
SessionOptions resolve_options(TrainConfig config, const Registries& registries = {}, const Notes& notes = {},
                               engine::Collective* ranks = nullptr);
/// The same options; with --exact off and several GPUs, also the sums between them. All ranks call it, after they have agreed.
SessionOptions open_device_sums(SessionOptions options);

}  // namespace dlpipe::run
