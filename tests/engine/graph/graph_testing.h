// What tests of graphs share: tensors of seeded values, and a graph of a function of one input.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/graph/capture.h"

namespace dlpipe::engine::graph {

inline Tensor drawn(const Shape& shape, uint64_t seed, double offset = 0.0) {
  Tensor tensor = Tensor::empty(shape);
  RandomStream random(seed, 1);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.data<float>()[i] = static_cast<float>(random.normal() + offset);
  return tensor;
}

/// Of batches of inputs like `sample`.
inline Graph captured(const TensorSpec& sample, const Function& function,
                      const std::vector<std::pair<std::string, Tensor>>& weights = {}) {
  const CaptureInput input = {"x", sample, bit(0)};
  return capture("test", {&input, 1}, weights, function);
}

}  // namespace dlpipe::engine::graph
