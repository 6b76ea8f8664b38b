#include "dlpipe/engine/graph/passes/views.h"

#include <numeric>

namespace dlpipe::engine::graph {

Tensor counted(const Shape& shape) {
  std::vector<double> numbers(static_cast<size_t>(shape.elements()));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return Tensor::from<double>(numbers, shape);
}

Tensor through_views(const Graph& graph, const std::vector<int>& producers, ValueId source, ValueId id,
                     const Tensor& numbers, int64_t batch) {
  if (id == source) return numbers;
  const NoGrad no_grad;
  const Node& node = graph.nodes[static_cast<size_t>(producers[static_cast<size_t>(id)])];
  return apply(*node.op, {through_views(graph, producers, source, node.inputs[0], numbers, batch)},
               node.attrs_at(batch))[0];
}

}  // namespace dlpipe::engine::graph
