// Capture: a function of tensors becomes a graph of the ops that it called.
//
// The function is run for batches of two and of three samples under a CallObserver (core/observers.h): sizes that grow with the
// batch are marked. A tensor that an op reads but no op made is a constant, with a name if it is in `weights`. Throws Error,
// "[graph] ...", if the function reads values that depend on its input, if the two runs call different ops, or if an op's
// attributes depend on the batch, other than the sizes of a reshape or an expand. Cost: two runs of the function, with all
// results kept meanwhile. Values that depend on its inputs are not computed, since nothing may read them: they only have shapes
// and memory that isn't touched.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/graph.h"

namespace dlpipe::engine::graph {

/// Not one, because a broadcast along a batch of one can't be recognized.
inline constexpr std::array<int64_t, 2> kCapturedBatches = {2, 3};

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

struct CaptureInput {
  std::string name;
  TensorSpec sample;        // for a batch of one
  uint32_t batch_axes = 1;  // bit(i): axis i grows with the batch
};

struct CaptureLimits {
  uint64_t constant_bytes = UINT64_MAX;  // total of the values that ops compute from constants only
  uint64_t value_bytes = UINT64_MAX;     // of any other value, per sample
};

/// Runs without history and autocast. `weights`: names of constants. Throws kUnsupported if the function exceeds
/// `limits`.
Graph capture(const std::string& name, std::span<const CaptureInput> inputs,
              std::span<const std::pair<std::string, Tensor>> weights, const Function& function,
              const CaptureLimits& limits = {});

}  // namespace dlpipe::engine::graph
