// Whether two recordings are of the same pass: the same kernels with the same attributes on tensors that lie alike, and
// equal constants. Then running either again does what the pass would. What changes from pass to pass is so found, but
// for host code that changes its mind later than the second of the two.
//
// A pure function. Cost: one look at each call, and at the bytes of constants.
#pragma once

#include <string>

#include "dlpipe/engine/replay/recording.h"

namespace dlpipe::engine::replay {

/// What is not the same, for people; empty: nothing. Recordings that refuse are different.
std::string difference(const Recording& first, const Recording& second);

}  // namespace dlpipe::engine::replay
