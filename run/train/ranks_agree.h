// Whether all ranks are about to compute the same run: asked once, when each has opened its data and built its model.
#pragma once

#include "dlpipe/run/train/session_data.h"
#include "dlpipe/run/train/session_options.h"

namespace dlpipe::run {

/// `prepared`: how this rank's own preparation ended; `weights_hash`: of the first weights, all of them. Throws on all ranks where one
/// of them failed, with that one's error, or where one differs from the first in an option, its dataset, its build, its
/// instruction set or its first weights: kMisuse names what, with both values. The message is rank 0's; the others'
/// errors have none.
void check_ranks_agree(const SessionOptions& options, const SessionData& data, uint64_t weights_hash,
                       const Status& prepared, engine::Collective& ranks);

}  // namespace dlpipe::run
