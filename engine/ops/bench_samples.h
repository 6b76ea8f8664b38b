// What benchmarks run an op on.
#pragma once

#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

/// Inputs of the sizes that networks have: the record's own or, where it has none, its first sample with the
/// leading axis made longer where the op's shape rule allows that.
std::vector<OpSample> bench_samples(const OpRecord& record);

/// For OpRecord::bench: the first of `samples`, whose attributes suit any shape, with other inputs.
std::vector<OpSample> large_sample(std::vector<OpSample> samples, std::vector<TensorSpec> inputs);

}  // namespace dlpipe::engine
