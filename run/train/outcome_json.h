// What `dlpipe train --json` prints (docs/json.md). Pure functions.
#pragma once

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/train/loop/trainer.h"

namespace dlpipe::run {

/// With config.overfit_batch the four keys that it has.
formats::Json outcome_json(const TrainOutcome& outcome, const TrainConfig& config);
/// Whether --overfit-batch learnt its batch by heart: its loss fell to a tenth.
bool is_learnt(const TrainOutcome& outcome);

}  // namespace dlpipe::run
