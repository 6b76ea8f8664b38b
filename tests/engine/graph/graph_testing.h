// What tests of graphs share: tensors of seeded values, a graph of a function of one input, what two graphs differ by.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/random.h"
#include "engine/graph/capture.h"
#include "tests/engine/distance.h"

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

/// A graph's text between the first and the last line.
inline std::string body(const Graph& graph) {
  const std::string text = to_text(graph);
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.rfind("->") - begin);
}

/// Between what both answer to the same drawn input.
inline double largest_difference(const Graph& a, const Graph& b) {
  Shape shape = a.value(a.inputs[0]).shape_at(3);
  const Tensor x = drawn(shape, 5);
  return test::largest_difference(Runner(b).run({&x, 1})[0], Runner(a).run({&x, 1})[0]);
}

}  // namespace dlpipe::engine::graph
