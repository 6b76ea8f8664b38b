// The first stage of a session: a TrainConfig whose names are found and whose values are checked.
//
// A session is stages that return values, and each can be used alone:
//
//   resolve_options, open_device_sums (here) -> link_pictures (linked_data.h) -> open_data, with_data (data.h)
//     -> build_model, split_model, build_optimizer (model.h) -> plan_memory (memory.h) -> Trainer (loop/trainer.h)
//
//   const SessionOptions options = resolve_options(config);
//   SessionData data = open_data(options);
//   const auto model = build_model(options, data);
//   while (auto batch = value_or_throw(data.train->next())) {
//     const engine::Tensor logits = (*model)(batch_input(*batch).pixels);
//     throw_if_error(data.train->release(*batch));
//   }
//
// Stages throw dlpipe::Error and tell `notes` what a person should know. Session (session.h) runs them all and
// adds the run directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/collective/rank_grid.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/train/step/train_step.h"
#include "dlpipe/run/use/evaluate.h"

namespace dlpipe::run {

/// A warning is what the user may have to act on: results to be careful with, files left out, options without effect.
enum class Tone : uint8_t { kNote, kWarning };
/// Told one line for a person; may be empty.
using Notes = std::function<void(const std::string&, Tone)>;
inline void tell(const Notes& notes, const std::string& text) {
  if (notes) notes(text, Tone::kNote);
}
inline void warn(const Notes& notes, const std::string& text) {
  if (notes) notes(text, Tone::kWarning);
}

/// The registries' records live longer. The engine's number of threads is the process's:
/// engine::set_engine_threads(threads) is for the program to call, as Session does.
struct SessionOptions {
  TrainConfig config;  // every option of the chosen optimizer, schedule and loss has its value
  Registries registries;
  const engine::ModelRecord* model = nullptr;
  std::shared_ptr<const engine::ModelRecord>
      graph;  // the model, where no code builds it; null: it is of the table
  const engine::OptimizerRecord* optimizer = nullptr;
  Device* device = nullptr;
  int threads = 1;
  TrainStepOptions step;
  EvalOptions eval;
  Interval val_every;
  Interval checkpoint_every;
  uint64_t memory_limit = 0;  // bytes; 0: none
  uint64_t cache_bytes = 0;   // of --cache, of all processes together; 0: no limit of its own
  engine::RankGrid ranks;
  std::shared_ptr<engine::DeviceSums> device_sums;  // with --exact off on several GPUs

  bool is_on_host() const { return device->is_host(); }
  /// --overfit-batch: one batch again and again, nothing else.
  bool overfits() const { return config.overfit_batch > 0; }
};

/// "--pipeline-parallel 2 --tensor-parallel 4", of those that are given.
std::string replica_options(const TrainConfig& config);

/// Of a run without a validation set: throws with --early-stop.
void check_early_stop(const TrainConfig& config);

/// --milestones. Throws where one is none that a run may have.
std::vector<double> milestones_of(const TrainConfig& config);

/// Opens and writes nothing. kMisuse names the option.
SessionOptions resolve_options(TrainConfig config, const Registries& registries = {}, const Notes& notes = {},
                               engine::Collective* ranks = nullptr);
/// The same options; with --exact off and several GPUs, with what sums between them. All ranks call it, after they have agreed.
SessionOptions open_device_sums(SessionOptions options);

}  // namespace dlpipe::run
