// Where the elements of a value come to lie through reshapes, transposes and slices.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// Passes look no further back than this many of them, and not at values of more elements: what they look at is numbered.
inline constexpr int kMostViews = 64;
inline constexpr int64_t kMostCounted = int64_t{1} << 24;

/// What `id` is for a batch of `batch` where value `source` is `numbers`, and only nodes of one input are between them.
/// `producers`: Graph::producers().
Tensor through_views(const Graph& graph, const std::vector<int>& producers, ValueId source, ValueId id,
                     const Tensor& numbers, int64_t batch);
/// 0, 1, 2, ...
Tensor counted(const Shape& shape);

}  // namespace dlpipe::engine::graph
