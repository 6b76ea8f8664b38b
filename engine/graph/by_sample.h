// Whether a graph's samples can be computed one by one, and how many of them at a time are best.
#pragma once

#include <cstdint>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// Whether an answer for a batch is the answers for its parts, one after another: axis 0 of everything that depends on the
/// inputs is the batch, and no node looks along it: the ops' records say so (OpRecord::batch_inputs), and no other op counts.
bool is_by_sample(const Graph& graph);

/// How a batch is run so that what flows from node to node stays in the last-level cache.
struct BatchParts {
  int64_t samples = 0;  // of a part; 0: the whole batch is one
  /// So many threads may each take parts of their own, from the first node to the last; more run one part together.
  int64_t apart = 1;
};
/// In parts: graphs with conv_units alone, which are mostly such traffic, and whose kernels are as fast with a few samples. How
/// large parts are doesn't depend on the number of threads: nor do the bits.
BatchParts batch_parts(const Graph& graph);

}  // namespace dlpipe::engine::graph
