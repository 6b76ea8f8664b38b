// Whether a run's checkpoints fit on its disk, looked at before the first step: a run that can't save ends hours later.
// What else a run writes (logs, --cache) is small or keeps to what is free.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

struct DiskPlan {
  std::string directory;          // of the checkpoints, which may be a link to another disk
  uint64_t checkpoint_bytes = 0;  // of one
  int64_t at_once = 0;            // checkpoints at most, the one that is being written among them
  uint64_t held_bytes = 0;        // by the run's checkpoints so far, which later ones replace
  uint64_t free_bytes = 0;
};

/// What decides how many checkpoints a run has.
struct CheckpointCount {
  int64_t keep = 1;
  Interval checkpoint_every;
  Interval val_every;  // never: nothing is validated, and none is the best
  int64_t steps = 0;   // that are left
  double steps_per_epoch = 1;
  int64_t held = 0;  // checkpoints that are there
};
/// The most that are on the disk together: those kept, the best, and the next, which is written before an older one goes.
int64_t checkpoints_at_once(const CheckpointCount& count);

/// The checkpoints below `directory`/checkpoints, which is there, and what is free there.
Result<DiskPlan> plan_disk(const std::string& directory, uint64_t checkpoint_bytes, int64_t at_once);

/// kNoSpace where not even the next checkpoint fits; else a warning, "" where all of them fit.
Result<std::string> check_checkpoints_fit(const DiskPlan& plan);

}  // namespace dlpipe::run
