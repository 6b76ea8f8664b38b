// What a run keeps so that it can go on anywhere, and what may change when it does: paths to the same data, a
// longer run where its past stays what it was, and options that are marked free in the option table. Pure
// functions, but for looking at what is there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/optim/schedule.h"
#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

/// Of a new run: makes its paths absolute and notes in config.record what was typed.
void record_paths(TrainConfig& config);

/// Of a run in `directory` that goes on: finds its paths again and applies `changes` (name, text). kMisuse for
/// an option that can't change, kNotFound where the dataset, or what it links to, is gone.
Status change_for_resume(const std::string& directory,
                         const std::vector<std::pair<std::string, std::string>>& changes,
                         TrainConfig& config);

/// kMisuse, with both ids, where the dataset in `directory` isn't the one that the run began with as `option`, --data or --val;
/// kNotFound where `directory` is "": there is none now. `path`: what a person knows it by.
Status check_dataset(const PathOption& option, const std::string& path, const std::string& directory,
                     const TrainConfig& config);

/// kMisuse unless a run of `config.out` that has done `step` steps by the schedule `former` would have done the
/// same by `now`; names the command that begins another run from its weights.
Status check_same_past(const engine::ScheduleArguments& former, const engine::ScheduleArguments& now,
                       int64_t step, const TrainConfig& config);

}  // namespace dlpipe::run
