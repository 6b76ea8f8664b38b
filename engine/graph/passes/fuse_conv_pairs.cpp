// A 1x1 conv_unit that a depthwise one alone reads becomes a conv_pair with it: what lies between, the widest there is in such
// networks, stays in a core's cache.
#include <algorithm>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/conv_pair.h"

namespace dlpipe::engine::graph {

namespace {

bool is_unit(const Node& node) {
  return is_op(node, "conv_unit") && input_or_none(node, 3) == kNone;
}

bool is_pointwise(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  const auto& attrs = node.attrs.as<ConvUnitAttrs>();
  return weight[2] == 1 && weight[3] == 1 && attrs.groups == 1 && attrs.stride == std::array{1, 1} &&
         attrs.padding == std::array{0, 0};
}

bool is_depthwise(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  return weight[1] == 1 && weight[0] == node.attrs.as<ConvUnitAttrs>().groups;
}

// Leaves nodes without a reader, for remove_dead_nodes.
int fuse(Graph& graph) {
  int fused = 0;
  const std::vector<int> uses = graph.uses(), producers = graph.producers();
  for (Node& outer : graph.nodes) {
    if (!is_unit(outer) || !is_depthwise(graph, outer)) continue;
    const auto between = static_cast<size_t>(outer.inputs[0]);
    if (uses[between] != 1 || producers[between] < 0) continue;
    const Node& inner = graph.nodes[static_cast<size_t>(producers[between])];
    if (!is_unit(inner) || !is_pointwise(graph, inner)) continue;
    const auto& first = inner.attrs.as<ConvUnitAttrs>();
    const auto second = outer.attrs.as<ConvUnitAttrs>();
    std::vector<ValueId> inputs = {inner.inputs[0], inner.inputs[1], outer.inputs[1], input_or_none(inner, 2),
                                   input_or_none(outer, 2)};
    outer.op = &row_of("conv_pair");
    outer.attrs = ConvPairAttrs{first.tail,      first.low,   first.high, second.stride, second.padding,
                                second.dilation, second.tail, second.low, second.high};
    outer.inputs = std::move(inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_conv_pairs = {"fuse_conv_pairs",
                              "a 1x1 convolution and the depthwise one behind it are one pass", false, fuse};

}  // namespace dlpipe::engine::graph
