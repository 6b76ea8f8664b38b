// y * factor + offset for each channel, put into the weights of the convolution or linear that makes y: what several
// passes come to. Computed in f64, rounded once.
#pragma once

#include <vector>

#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/graph/matching.h"

namespace dlpipe::engine::graph {

struct Affine {
  std::vector<double> factor, offset;  // one per channel
};

/// The node that makes `id`, where it can take an affine: a convolution or linear without activation, of constant f32
/// weights, which `id` alone reads of. -1: none.
int product_behind(const Graph& graph, ValueId id, const Walk& walk);

/// Gives `product` new weights and bias.
void put_into_weights(Graph& graph, size_t product, const Affine& affine);

}  // namespace dlpipe::engine::graph
