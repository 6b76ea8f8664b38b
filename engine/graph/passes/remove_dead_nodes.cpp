#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

int remove_dead(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (const ValueId id : graph.outputs) wanted[static_cast<size_t>(id)] = true;
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    bool is_wanted = false;
    for (const ValueId id : node.outputs) is_wanted = is_wanted || wanted[static_cast<size_t>(id)];
    if (!is_wanted) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) wanted[static_cast<size_t>(id)] = true;
    }
    kept.push_back(std::move(node));
  }
  const int removed = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return removed;
}

}  // namespace

const Pass remove_dead_nodes = {"remove_dead_nodes", "what no output depends on", true, remove_dead};

}  // namespace dlpipe::engine::graph
