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
  const NoGrad no_grad;
  std::vector<const Node*> views;  // the last first
  for (ValueId at = id; at != source; at = views.back()->inputs[0])
    views.push_back(&graph.nodes[static_cast<size_t>(producers[static_cast<size_t>(at)])]);
  Tensor moved = numbers;
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    moved = apply(*(*view)->op, {moved}, (*view)->attrs_at(batch))[0];
  return moved;
}

}  // namespace dlpipe::engine::graph
