// What a session writes into its run directory when it has trained: where the time went, and the receipt.
#pragma once

#include <string>

#include "dlpipe/run/record/receipt.h"
#include "dlpipe/run/record/run_directory.h"
#include "dlpipe/run/train/loop/trainer.h"
#include "dlpipe/run/train/session/data.h"

namespace dlpipe::run {

/// `kernels`: what the run's table of kernels holds.
Receipt receipt_of(const SessionOptions& options, const SessionData& data, const TrainOutcome& outcome,
                   const std::string& kernels);

/// ledger.json and receipt.json. A session that trained nothing leaves the ledger of the one before.
void write_results(const RunDirectory& directory, const TrainOutcome& outcome, const Receipt& receipt);

}  // namespace dlpipe::run
