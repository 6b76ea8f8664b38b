// relu(add(a, b)) becomes add_relu(a, b), one pass over memory, to the same bits. Nobody else reads the sum.
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

// Nodes that lose their reader stay, for remove_dead_nodes.
int fuse_sums(Graph& graph) {
  int fused = 0;
  const Makers makers(graph);
  for (Node& node : graph.nodes) {
    if (!is_op(node, "relu")) continue;
    const Node* const add = makers.maker_for_us(node.inputs[0], "add");
    if (add == nullptr) continue;
    become(node, "add_relu", add->inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_add_relu = {"fuse_add_relu", "an add and the relu behind it are one pass", true, fuse_sums};

}  // namespace dlpipe::engine::graph
