#include "dlpipe/engine/graph/output_names.h"

#include <map>
#include <set>

#include "dlpipe/base/text.h"

namespace dlpipe::engine::graph {

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  return names;
}

void name_outputs(Graph& graph, std::span<const std::string> names) {
  std::vector<bool> is_named(graph.values.size(), false);
  std::set<std::string> given;
  const auto name = [&](ValueId id, const std::string& own) {
    if (is_named[static_cast<size_t>(id)] || !given.insert(own).second) return;
    graph.value(id).name = own;
    is_named[static_cast<size_t>(id)] = true;
  };
  for (const ValueId id : graph.inputs) name(id, graph.value(id).name);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!graph.value(graph.outputs[i]).is_constant()) name(graph.outputs[i], names[i]);
  }
  std::set<std::string> taken;
  std::map<std::string, int> next;  // number of those of one name
  for (const Value& value : graph.values) taken.insert(value.name);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    std::string& own = graph.values[i].name;
    if (is_named[i] || !given.contains(own)) continue;
    const std::string base = own;
    for (int& number = next.try_emplace(base, 2).first->second; !taken.insert(own).second; ++number)
      own = concat(base, "_", number);
  }
}

}  // namespace dlpipe::engine::graph
