// Common subexpressions: two nodes of one op with the same inputs and attributes give the same values. Two outputs of the graph
// stay two values, for a value has one name.
#include <algorithm>
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
  std::vector<bool> is_output(graph.values.size(), false);
  for (const ValueId id : graph.outputs) is_output[static_cast<size_t>(id)] = true;
  const auto has_output = [&](const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(),
                       [&](ValueId id) { return is_output[static_cast<size_t>(id)]; });
  };
  int shared = 0;
  for (Node node : nodes) {
    for (ValueId& id : node.inputs) {
      if (id != kNone) id = same_as[static_cast<size_t>(id)];
    }
    Key key(node.op, node.inputs, attrs_text(list_attrs(*node.op->record, node.attrs)), node.batch_sizes);
    const auto [entry, is_new] = known.try_emplace(std::move(key), node.outputs);
    if (is_new || (has_output(node.outputs) && has_output(entry->second))) {
      kept.push_back(std::move(node));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto own = static_cast<size_t>(node.outputs[i]), first = static_cast<size_t>(entry->second[i]);
      same_as[own] = entry->second[i];
      is_output[first] = is_output[first] || is_output[own];
    }
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
