// What `dlpipe bench ops` runs an op on.
#pragma once

#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::run {

/// Inputs of the size that networks have: from the list in bench_op_samples.cpp or, for an op that isn't in
/// it, its record's first sample with the leading axis made longer where the op's shape rule allows that.
std::vector<engine::OpSample> large_samples(const engine::OpRecord& record);

}  // namespace dlpipe::run
