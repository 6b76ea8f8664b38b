// Capture: a function of tensors becomes a graph of the ops that it called.
//
// The function is run for batches of two and of three samples under a CallObserver (core/call_observer.h): sizes
// that grow alike are the batch's. What a call reads and no call made is a constant: a named one where `weights` has
// it. Error, "[graph] ...", where the function looks at values that depend on its input, where the two runs
// called other ops, and where an op's attributes depend on the batch in another way than the sizes of a reshape or an expand do.
// Cost: two runs of the function, whose results are kept meanwhile. What depends on its inputs is not computed, since nothing may
// look at it: it has shapes, and memory that isn't touched.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// Not one, for which a broadcast along the batch looks like nothing.
inline constexpr std::array<int64_t, 2> kCapturedBatches = {2, 3};

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

struct CaptureInput {
  std::string name;
  TensorSpec sample;        // of a batch of one
  uint32_t batch_axes = 1;  // bit(i): axis i grows with the batch
};

struct CaptureLimits {
  uint64_t constant_bytes = UINT64_MAX;  // of all that ops make of constants alone
  uint64_t value_bytes = UINT64_MAX;     // of any other value, for a sample
};

/// Runs without history and autocast. `weights`: names of constants. kUnsupported where the function makes more than `limits` allow.
Graph capture(const std::string& name, std::span<const CaptureInput> inputs,
              std::span<const std::pair<std::string, Tensor>> weights, const Function& function,
              const CaptureLimits& limits = {});

}  // namespace dlpipe::engine::graph
