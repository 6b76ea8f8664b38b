// Checks before a run's first step whether it has enough memory and disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "dlpipe/optim.h"
#include "dlpipe/report.h"
#include "run/config/config.h"
#include "run/train/session/data.h"
#include "run/train/step/train_step.h"
#include "run/use/evaluate.h"

namespace dlpipe::run {

// Estimates a training run's memory before its first step: measures two small steps on a copy of the model and a validation of
// as many samples, and extrapolates linearly, because everything that grows is proportional to the batch. If the estimate for
// the whole batch is small, that is measured instead.

struct MemoryPlanArguments {
  const engine::ModelRecord* model = nullptr;
  engine::ModelArguments model_arguments;
  std::vector<std::string> freeze;
  std::vector<std::string> checkpoint_activations;
  const engine::OptimizerRecord* optimizer = nullptr;
  engine::OptimizerArguments optimizer_arguments;
  TrainStepOptions step;
  /// Shape of a validation sample, evaluated as in `eval`: images [H,W,C], or tokens [T+1] of training's length. Rank 0: no
  /// validation.
  Shape val_shape;
  EvalOptions eval;
  Device* device = &cpu_device();
  int64_t batch = 1;
  uint64_t slot_bytes = 0;
  uint64_t scratch_bytes = 0;
  bool has_average = false;  // --ema
  /// A parameter's gradient is released as soon as others arrive, as with a GradientSum; `activations` then does not include
  /// them.
  bool gradients_go = false;
};

/// Takes about as long as two steps; four, plus the search for the fastest kernels, if the whole batch is measured. Side effects:
/// the allocator's cache is emptied, and kernels are measured if the kernel table requests that; the table itself is unchanged.
/// One thread.
MemoryPlan plan_memory(const MemoryPlanArguments& arguments);

/// The engine's peak memory on a device since the last start of a measurement: tensors and scratch.
void start_memory_measurement(Device& device = cpu_device());
uint64_t measured_engine_bytes(Device& device = cpu_device());

/// For a session, from its other stages. kMisuse if the run would exceed --memory, with the batch that fits.
MemoryPlan plan_memory(const SessionOptions& options, const SessionData& data, const engine::Module& model);

/// The end of an out-of-memory error message. If `plan.total()` is 0, there is no plan.
std::string memory_advice(const SessionOptions& options, const MemoryPlan& plan);

// Checks before the first step whether a run's checkpoints fit on its disk, because a run that can't save would fail hours
// later. Other files of a run (logs, --cache) are small or respect the free space.

struct DiskPlan {
  std::string directory;          // of the checkpoints, which may be a link to another disk
  uint64_t checkpoint_bytes = 0;  // of one
  int64_t at_once = 0;            // the most checkpoints, including the one being written
  uint64_t held_bytes = 0;        // used by the run's checkpoints so far, which later ones replace
  uint64_t free_bytes = 0;
};

/// The facts that determine how many checkpoints a run has.
struct CheckpointCount {
  int64_t keep = 1;
  Interval checkpoint_every;
  Interval val_every;  // never: no validation, and no best checkpoint
  int64_t steps = 0;   // remaining steps
  double steps_per_epoch = 1;
  int64_t held = 0;  // existing checkpoints
};
/// The most checkpoints on the disk at once: those kept, the best, and the next, which is written before an older one is
/// removed.
int64_t checkpoints_at_once(const CheckpointCount& count);

/// The checkpoints below `directory`/checkpoints, which must exist, and the free space there.
Result<DiskPlan> plan_disk(const std::string& directory, uint64_t checkpoint_bytes, int64_t at_once);

/// kNoSpace if not even the next checkpoint fits; else a warning, "" if all of them fit.
Result<std::string> check_checkpoints_fit(const DiskPlan& plan);

}  // namespace dlpipe::run
