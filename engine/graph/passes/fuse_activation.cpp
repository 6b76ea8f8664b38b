// A relu or gelu that alone reads a convolution's, linear's or batch norm's output runs in that node's pass over memory: the
// records promise the same bits (OpRecord::fused).
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

/// Makes `activation` a part of `node`; false where the node can't have it, or has one.
bool take(Node& node, const std::string& activation) {
  const bool is_relu = activation == "relu";
  if (is_relu && is_op(node, "batch_norm")) {
    if (attribute(node, "relu") != AttrValue(false)) return false;
    set_attribute(node, "relu", true);
    return true;
  }
  if (!is_op(node, "linear") && !(is_relu && is_op(node, "conv2d"))) return false;
  if (attribute(node, "activation") != AttrValue(std::string("none"))) return false;
  set_attribute(node, "activation", activation);
  return true;
}

int fuse(Graph& graph) {
  int fused = 0;
  Walk walk(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = walk.node(i);
    const std::string_view name = node.op->record->name;
    if (name != "relu" && name != "gelu") continue;
    const ValueId x = node.inputs[0];
    const int index = walk.producer(x);
    if (index < 0 || walk.uses(x) != 1) continue;
    if (!take(graph.nodes[static_cast<size_t>(index)], std::string(name))) continue;
    walk.remove(i, x);
    ++fused;
  }
  walk.finish();
  return fused;
}

}  // namespace

const Pass fuse_activation = {
    "fuse_activation", "relu and gelu run in the pass of the product or batch norm before them", true, fuse};

}  // namespace dlpipe::engine::graph
