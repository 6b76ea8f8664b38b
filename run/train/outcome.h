// The outcome of a training as files and text: its ledger.json, and what `dlpipe train --json` prints (docs/json.md).
// TrainOutcome itself is in dlpipe/session.h.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/session.h"
#include "dlpipe/stats.h"
#include "io/formats/json.h"
#include "run/record/run_directory.h"

namespace dlpipe::run {

/// Writes ledger.json, for the run so far or, with `is_over`, for the whole run.
Status write_ledger(const RunDirectory& directory, const TrainOutcome& outcome, bool is_over);

/// The share of training's time in which the host waited for data, or decoded them itself.
double host_wait_share(const LedgerEntry& entry);

/// With config.overfit_batch, it has other keys. `warnings`: the warnings shown to the user.
formats::Json outcome_json(const TrainOutcome& outcome, const TrainConfig& config,
                           const std::vector<std::string>& warnings);
/// Whether --overfit-batch memorised its batch: its loss fell to a tenth.
bool is_learnt(const TrainOutcome& outcome);

}  // namespace dlpipe::run
