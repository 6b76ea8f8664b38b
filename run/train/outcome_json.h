// What `dlpipe train --json` prints (docs/json.md). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/train/loop/trainer.h"

namespace dlpipe::run {

/// With config.overfit_batch the keys that it has. `warnings`: what the user was warned of.
formats::Json outcome_json(const TrainOutcome& outcome, const TrainConfig& config,
                           const std::vector<std::string>& warnings);
/// Whether --overfit-batch learnt its batch by heart: its loss fell to a tenth.
bool is_learnt(const TrainOutcome& outcome);

}  // namespace dlpipe::run
