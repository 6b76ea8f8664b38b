// Whether all ranks are about to compute the same run: asked when each knows its options, and when it has opened its data and built
// its model.
#pragma once

#include "dlpipe/run/train/session/data.h"
#include "dlpipe/run/train/session/options.h"

namespace dlpipe::run {

/// `prepared`: how this rank's own preparation ended so far. Throws on all ranks where one of them failed, with that one's error, or
/// where one differs from the first in an option, in what its paths hold, its build or its instruction set: kMisuse names what, with
/// both values. The message is rank 0's; the others' errors have none. Before anything that ranks do together: those that
/// differ may not do it.
void check_options_agree(const SessionOptions& options, const Status& prepared, engine::Collective& ranks);
/// The same of the datasets, the pipeline and the first weights, all of them (`weights_hash`).
void check_data_agree(const SessionData& data, uint64_t weights_hash, const Status& prepared,
                      engine::Collective& ranks);

}  // namespace dlpipe::run
