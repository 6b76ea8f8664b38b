// Where the elements of a value come to lie through reshapes, transposes and slices.
#pragma once

#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// What `id` is for a batch of `batch` where value `source` is `numbers`, and only nodes of one input are between them.
/// `producers`: Graph::producers().
Tensor through_views(const Graph& graph, const std::vector<int>& producers, ValueId source, ValueId id,
                     const Tensor& numbers, int64_t batch);
/// 0, 1, 2, ...
Tensor counted(const Shape& shape);

}  // namespace dlpipe::engine::graph
