#include "dlpipe/run/train/session/disk_plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

/// How often something comes at most that is due at every `interval`, up to `most`.
static int64_t times(const Interval& interval, const CheckpointCount& count, int64_t most) {
  const auto steps = static_cast<double>(count.steps);
  switch (interval.unit) {
    case Interval::Unit::kNever:
      return 0;
    case Interval::Unit::kSteps:
      return static_cast<int64_t>(std::min(std::ceil(steps / interval.amount), static_cast<double>(most)));
    case Interval::Unit::kEpochs:
      return static_cast<int64_t>(
          std::min(std::ceil(steps / (interval.amount * count.steps_per_epoch)), static_cast<double>(most)));
    case Interval::Unit::kSeconds:
      return std::min(most, count.steps);
  }
  return most;
}

int64_t checkpoints_at_once(const CheckpointCount& count) {
  const bool has_best = count.val_every.unit != Interval::Unit::kNever;
  const int64_t most = count.keep + (has_best ? 1 : 0) + 1;
  // Each validation may be the best so far, and is saved then; the end always is.
  const int64_t saved = times(count.checkpoint_every, count, most) + times(count.val_every, count, most) + 1;
  return std::min(most, count.held + saved);
}

Result<DiskPlan> plan_disk(const std::string& directory, uint64_t checkpoint_bytes, int64_t at_once) {
  DiskPlan plan{directory + "/checkpoints", checkpoint_bytes, at_once, 0, 0};
  std::error_code error;
  const fs::space_info space = fs::space(plan.directory, error);
  if (error) return status_from_errno("train", concat("cannot look at ", plan.directory), error.value());
  plan.free_bytes = space.available;
  std::error_code ignored;
  for (auto file = fs::recursive_directory_iterator(plan.directory, ignored);
       !ignored && file != fs::recursive_directory_iterator(); file.increment(ignored)) {
    std::error_code is_gone;
    if (!file->is_symlink(is_gone) && file->is_regular_file(is_gone)) {
      const uintmax_t bytes = file->file_size(is_gone);
      plan.held_bytes += is_gone ? 0 : bytes;
    }
  }
  return plan;
}

Result<std::string> check_checkpoints_fit(const DiskPlan& plan) {
  const std::string one = human_bytes(plan.checkpoint_bytes);
  const std::string free = human_bytes(plan.free_bytes);
  if (plan.checkpoint_bytes > plan.free_bytes) {
    return Status(ErrorCode::kNoSpace,
                  concat("[train] a checkpoint takes ", one, ", and ", free, " are free in ", plan.directory,
                         "; free space there before the run begins"));
  }
  const uint64_t all = plan.checkpoint_bytes * static_cast<uint64_t>(plan.at_once);
  if (all <= plan.free_bytes + plan.held_bytes) return std::string();
  return concat(
      "the run's checkpoints will not fit on its disk: each takes ", one, ", up to ", plan.at_once,
      " are there at once (those of --keep, the best, and the one being written), ", human_bytes(all),
      " in all, and ", free, " are free in ", plan.directory,
      plan.held_bytes > 0 ? concat(" beside the ", human_bytes(plan.held_bytes), " that they take now") : "",
      "; free space there, or give a smaller --keep");
}

}  // namespace dlpipe::run
