// Common subexpressions: two nodes of one op with the same inputs and attributes give the same values.
#include <map>
#include <string>
#include <tuple>

#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

int share(Graph& graph) {
  using Key = std::tuple<const OpRow*, std::vector<ValueId>, std::string, uint32_t>;
  std::map<Key, std::vector<ValueId>> known;
  std::vector<Node> kept;
  const std::vector<Node> nodes = std::move(graph.nodes);
  std::vector<ValueId> same_as(graph.values.size());
  for (size_t i = 0; i < same_as.size(); ++i) same_as[i] = static_cast<ValueId>(i);
  int shared = 0;
  for (Node node : nodes) {
    for (ValueId& id : node.inputs) {
      if (id != kNone) id = same_as[static_cast<size_t>(id)];
    }
    Key key(node.op, node.inputs, attrs_text(list_attrs(*node.op->record, node.attrs)), node.batch_sizes);
    const auto [entry, is_new] = known.try_emplace(std::move(key), node.outputs);
    if (is_new) {
      kept.push_back(std::move(node));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      same_as[static_cast<size_t>(node.outputs[i])] = entry->second[i];
    ++shared;
  }
  graph.nodes = std::move(kept);
  for (ValueId& id : graph.outputs) id = same_as[static_cast<size_t>(id)];
  return shared;
}

}  // namespace

const Pass share_equal_nodes = {"share_equal_nodes", "nodes of one op, inputs and attributes are one", true,
                                share};

}  // namespace dlpipe::engine::graph
