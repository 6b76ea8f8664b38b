// A constant for each channel that a convolution's or linear's output is multiplied by, or that is added to it, goes into
// the weights' rows and the bias: exporters write biases of linears and layer scale (ConvNeXt) so.
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/passes/affine.h"

namespace dlpipe::engine::graph {

namespace {

// One f32 per channel of `to`, whose last axis channels are.
bool is_channels(const Value& value, const Value& to) {
  if (!value.is_constant() || value.dtype != DType::kF32 || to.shape.rank() == 0) return false;
  const int64_t channels = to.shape[-1];
  return value.shape.elements() == channels && value.shape.rank() > 0 && value.shape[-1] == channels &&
         value.shape.rank() <= to.shape.rank();
}

// The input of `node` that a product makes and this pass can take; -1: none.
int foldable_side(const Graph& graph, const Node& node, const Walk& walk) {
  if (!is_op(node, "mul") && !is_op(node, "add")) return -1;
  for (const int side : {0, 1}) {
    const ValueId value = node.inputs[static_cast<size_t>(side)];
    const ValueId other = node.inputs[static_cast<size_t>(1 - side)];
    const Value& to = graph.value(node.outputs[0]);
    if (is_channels(graph.value(other), to) && graph.value(value).shape == to.shape &&
        product_behind(graph, value, walk) >= 0)
      return side;
  }
  return -1;
}

int fold_channels(Graph& graph) {
  int folded = 0;
  Walk walk(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = walk.node(i);
    const int side = foldable_side(graph, node, walk);
    if (side < 0) continue;
    const ValueId value = node.inputs[static_cast<size_t>(side)];
    const std::vector<double> constant =
        graph.value(node.inputs[static_cast<size_t>(1 - side)]).constant.to_doubles();
    const bool is_factor = is_op(node, "mul");
    const Affine affine = {is_factor ? constant : std::vector<double>(constant.size(), 1.0),
                           is_factor ? std::vector<double>(constant.size(), 0.0) : constant};
    put_into_weights(graph, static_cast<size_t>(product_behind(graph, value, walk)), affine);
    walk.remove(i, value);
    ++folded;
  }
  walk.finish();
  return folded;
}

}  // namespace

const Pass fold_scale_and_shift = {
    "fold_scale_and_shift",
    "constants by which channels are multiplied, or that are added to them, go into the "
    "weights before them",
    false, fold_channels};

}  // namespace dlpipe::engine::graph
