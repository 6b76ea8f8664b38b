// Training form and inference form of a graph (dlpipe/graph.h).
#include <algorithm>
#include <string_view>
#include <utility>

#include "dlpipe/graph.h"
#include "dlpipe/ops.h"
#include "engine/graph/matching.h"
#include "engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

bool is_live_norm(const Node& node) {
  return is_op(node, "batch_norm") && node.attrs.as<BatchNormAttrs>().training;
}

// Whether `id` is a mask of stochastic depth: dropout of ones.
bool is_mask(const Graph& graph, const Makers& makers, ValueId id) {
  const Node* const dropout = makers.maker(id);
  if (dropout == nullptr || !is_op(*dropout, "dropout")) return false;
  ValueId ones = dropout->inputs[0];
  if (const Node* const wide = makers.maker(ones); wide != nullptr && is_op(*wide, "expand"))
    ones = wide->inputs[0];
  const Value& value = graph.value(ones);
  return value.is_constant() && value.dtype == DType::kF32 && value.shape.elements() == 1 &&
         value.constant.to_doubles()[0] == 1.0;
}

}  // namespace

bool is_training_form(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return is_live_norm(node) || is_op(node, "dropout"); });
}

bool is_captured(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return value.trained.has_value(); });
}

Graph inference_form(Graph graph) {
  if (!is_captured(graph) && !is_training_form(graph)) return graph;
  const Makers makers(graph);
  for (const Node& node : graph.nodes) {  // first, while masks still have their dropout
    if (!is_op(node, "mul")) continue;
    const bool first = is_mask(graph, makers, node.inputs[0]);
    if (!first && !is_mask(graph, makers, node.inputs[1])) continue;
    const ValueId kept = node.inputs[first ? 1 : 0];
    if (graph.value(kept).shape == graph.value(node.outputs[0]).shape)
      graph.replace_uses(node.outputs[0], kept);
  }
  for (Node& node : graph.nodes) {
    if (is_live_norm(node)) {
      set_attribute(node, "training", false);
    } else if (is_op(node, "dropout")) {
      graph.replace_uses(node.outputs[0], node.inputs[0]);
    }
  }
  for (Value& value : graph.values) value.trained.reset();
  remove_dead_nodes.run(graph);
  graph.drop_unused_values();
  return graph;
}

}  // namespace dlpipe::engine::graph
