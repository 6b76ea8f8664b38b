// The config.toml of a run directory, which --resume reads back: it has its checksum in its last line, and
// checkpoints/config.toml is a copy of it. So a file that was cut short or edited is told from the run's own,
// and the copy says what stood there.
#pragma once

#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

/// Writes both; each appears whole, the copy first.
Status save_config(const std::string& run, const TrainConfig& config);

/// What save_config() wrote. Options that may change on resume may have been edited by hand; else kChanged
/// names each option that did, with both values, and how to go on. Runs of older programs have no checksum
/// and are believed.
Result<TrainConfig> load_config(const std::string& run);

/// The dataset that a run was trained on, of the run or one of its checkpoints; "" where nobody knows, or it is there no more.
std::string dataset_of_run(const std::string& path);

}  // namespace dlpipe::run
