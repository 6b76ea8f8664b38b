// A relu or gelu that alone reads a convolution's or linear's output runs in that node's pass over memory: the
// records promise the same bits (OpRecord::fused).
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

bool takes(const Node& product, std::string_view activation) {
  if (is_op(product, "linear")) return activation == "relu" || activation == "gelu";
  return is_op(product, "conv2d") && activation == "relu";
}

int fuse(Graph& graph) {
  int fused = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    const std::string_view name = node.op->record->name;
    if (name != "relu" && name != "gelu") continue;
    const ValueId x = node.inputs[0];
    const int index = graph.producers()[static_cast<size_t>(x)];
    if (index < 0 || graph.uses()[static_cast<size_t>(x)] != 1) continue;
    Node& product = graph.nodes[static_cast<size_t>(index)];
    if (!takes(product, name) || attribute(product, "activation") != AttrValue(std::string("none"))) continue;
    set_attribute(product, "activation", std::string(name));
    graph.replace_uses(node.outputs[0], x);
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
    --i;
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_activation = {"fuse_activation", "relu and gelu run in the pass of the product before them",
                              true, fuse};

}  // namespace dlpipe::engine::graph
