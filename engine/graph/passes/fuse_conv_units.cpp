// In a network with depthwise convolutions each convolution becomes a conv_unit, together with the clip, relu or silu that
// alone reads it and the sum behind that. Such networks move more memory than they multiply: what is one pass there is
// most of their time, and conv_unit's images are plain all the way. Networks without are faster in conv2d's blocked layouts
// (and with its Winograd), so that theirs stay.
#include <algorithm>
#include <limits>
#include <optional>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/clip.h"
#include "dlpipe/engine/ops/conv_unit.h"

namespace dlpipe::engine::graph {

namespace {

bool is_depthwise(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  const auto& attrs = node.attrs.as<Conv2dAttrs>();
  return attrs.groups > 1 && weight[1] == 1 && weight[0] == attrs.groups;
}

bool can_be_unit(const Graph& graph, const Node& node) {
  if (!is_op(node, "conv2d") || graph.value(node.inputs[0]).dtype != DType::kF32) return false;
  return node.attrs.as<Conv2dAttrs>().groups == 1 || is_depthwise(graph, node);
}

/// A convolution on its way to become a unit, and the node that it ends with.
struct Unit {
  size_t first = 0, last = 0;
  ConvUnitAttrs attrs;
  ValueId residual = kNone;
};

class UnitMaker {
 public:
  explicit UnitMaker(const Graph& graph)
      : graph_(graph), uses_(graph.uses()), first_reader_(graph.values.size(), graph.nodes.size()) {
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (id != kNone) first_reader_[static_cast<size_t>(id)] = i;
      }
    }
  }

  Unit unit_of(size_t conv) const {
    const auto& attrs = graph_.nodes[conv].attrs.as<Conv2dAttrs>();
    Unit unit{conv, conv, {attrs.stride, attrs.padding, attrs.dilation, attrs.groups}};
    if (attrs.activation == Activation::kRelu) {
      unit.attrs.tail = ConvTail::kClip;
      unit.attrs.low = 0;
    } else {
      take_activation(unit);
    }
    take_sum(unit);
    return unit;
  }

 private:
  ValueId result(const Unit& unit) const { return graph_.nodes[unit.last].outputs[0]; }

  // The node that alone reads what the unit has so far.
  std::optional<size_t> reader(const Unit& unit) const {
    const auto id = static_cast<size_t>(result(unit));
    if (uses_[id] != 1 || first_reader_[id] == graph_.nodes.size())
      return std::nullopt;  // an output of the graph
    return first_reader_[id];
  }

  void take_activation(Unit& unit) const {
    const std::optional<size_t> next = reader(unit);
    if (!next) return;
    const Node& node = graph_.nodes[*next];
    if (is_op(node, "clip")) {
      unit.attrs.low = node.attrs.as<ClipAttrs>().low;
      unit.attrs.high = node.attrs.as<ClipAttrs>().high;
    } else if (is_op(node, "relu")) {
      unit.attrs.low = 0;
    } else if (!is_op(node, "silu")) {
      return;
    }
    unit.attrs.tail = is_op(node, "silu") ? ConvTail::kSilu : ConvTail::kClip;
    unit.last = *next;
  }

  void take_sum(Unit& unit) const {
    const std::optional<size_t> next = reader(unit);
    if (!next || !is_op(graph_.nodes[*next], "add")) return;
    const std::vector<ValueId>& sides = graph_.nodes[*next].inputs;
    const ValueId id = result(unit), other = sides[0] == id ? sides[1] : sides[0];
    const Value &own = graph_.value(id), &added = graph_.value(other);
    if (added.shape != own.shape || added.batch_axes != own.batch_axes || added.dtype != own.dtype) return;
    unit.residual = other;
    unit.last = *next;
  }

  const Graph& graph_;
  std::vector<int> uses_;
  std::vector<size_t> first_reader_;  // of values; those of units that were made since are the same nodes
};

// Leaves nodes without a reader, for remove_dead_nodes.
int fuse(Graph& graph) {
  const bool has_depthwise = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return can_be_unit(graph, node) && is_depthwise(graph, node);
  });
  if (!has_depthwise) return 0;
  int fused = 0;
  const UnitMaker maker(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!can_be_unit(graph, graph.nodes[i])) continue;
    const Unit unit = maker.unit_of(i);
    std::vector<ValueId> inputs = graph.nodes[i].inputs;
    inputs.resize(unit.residual == kNone ? inputs.size() : 3, kNone);
    if (unit.residual != kNone) inputs.push_back(unit.residual);
    Node& node = graph.nodes[unit.last];  // where all that it reads is there
    node.op = &row_of("conv_unit");
    node.attrs = unit.attrs;
    node.inputs = std::move(inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_conv_units = {
    "fuse_conv_units",
    "in networks with depthwise convolutions, convolutions run with what follows them in one pass", false,
    fuse};

}  // namespace dlpipe::engine::graph
