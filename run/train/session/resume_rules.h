// What a run records so that it can be resumed anywhere, and what may change on resume: paths to the same data, a longer run if
// its past would be the same, and options that are marked free in the option table. Pure functions, except for checking which
// files exist.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/optim.h"
#include "run/config/config.h"

namespace dlpipe::run {

/// For a new run: makes its paths absolute, and records in config.record the paths that were typed.
void record_paths(TrainConfig& config);

/// For a resumed run in `directory`: finds its paths again and applies `changes` (name, text). kMisuse for an option that can't
/// change, kNotFound if the dataset, or what it links to, is missing.
Status change_for_resume(const std::string& directory,
                         const std::vector<std::pair<std::string, std::string>>& changes,
                         TrainConfig& config);

/// kMisuse, with both ids, if the dataset in `directory` is not the one that the run began with as `option`, --data or --val.
/// kNotFound if `directory` is "", because there is no such dataset now. `path`: its name in messages.
Status check_dataset(const PathOption& option, const std::string& path, const std::string& directory,
                     const TrainConfig& config);

/// kMisuse unless the run `config.out`, which has done `step` steps with the schedule `former`, would have done the same with the
/// schedule `now`. The error names the command that starts another run from the run's weights.
Status check_same_past(const engine::ScheduleArguments& former, const engine::ScheduleArguments& now,
                       int64_t step, const TrainConfig& config);

}  // namespace dlpipe::run
