// What a session's memory plan takes from its other stages, and what to do where memory doesn't suffice.
#pragma once

#include <string>

#include "dlpipe/run/train/session/data.h"
#include "dlpipe/run/train/step/memory_plan.h"

namespace dlpipe::run {

/// kMisuse where the run would take more than --memory says, with the batch that fits.
MemoryPlan plan_memory(const SessionOptions& options, const SessionData& data, const engine::Module& model);

/// The end of an error message where there was no memory left. `plan.total()` may be 0: none was made.
std::string memory_advice(const SessionOptions& options, const MemoryPlan& plan);

}  // namespace dlpipe::run
