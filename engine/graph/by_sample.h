// Whether a graph's samples can be computed one by one, and how many of them at a time are best.
#pragma once

#include <cstdint>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

/// Whether an answer for a batch is the answers for its parts, one after another: axis 0 of everything that depends on the
/// inputs is the batch, and no node looks along it: the ops' records say so (OpRecord::batch_inputs), and no other op counts.
bool is_by_sample(const Graph& graph);

/// How many samples may be under way at a time so that what flows from node to node stays in the last-level cache; 0: the whole
/// batch. Where there are as many as threads, each thread takes its share of them from the first node to the last. Of graphs with conv_units alone, which are mostly such traffic, and whose kernels give a sample the same bits in
/// any batch.
int64_t samples_at_a_time(const Graph& graph);

}  // namespace dlpipe::engine::graph
