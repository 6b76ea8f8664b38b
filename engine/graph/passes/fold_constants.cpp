// Nodes whose inputs are all constant are run once, now, as a Runner would run them. Random ops aren't in graphs.
#include <algorithm>

#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/core/inference_mode.h"
#include "dlpipe/engine/graph/passes.h"

namespace dlpipe::engine::graph {

namespace {

bool is_foldable(const Graph& graph, const Node& node) {
  if (node.batch_sizes != 0 || node.inputs.empty()) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == kNone || graph.value(id).is_constant(); });
}

// Whether there is room for its outputs: constants that grow from node to node must not take all memory.
bool take_bytes(Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId id : node.outputs) bytes += bytes_of(graph.value(id));
  if (bytes > graph.constant_bytes_left) return false;
  graph.constant_bytes_left -= bytes;
  return true;
}

int fold(Graph& graph) {
  const InferenceMode mode;
  std::vector<Node> kept;
  int folded = 0;
  for (Node& node : graph.nodes) {
    if (!is_foldable(graph, node) || !take_bytes(graph, node)) {
      kept.push_back(std::move(node));
      continue;
    }
    std::vector<Tensor> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNone ? Tensor() : graph.value(id).constant);
    const std::vector<Tensor> outputs = apply(*node.op, std::move(inputs), node.attrs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor output = outputs[i];
      if (output.layout() != Layout::kPlain) output = reorder(output, Layout::kPlain);
      graph.value(node.outputs[i]).constant = output.contiguous_copy();
    }
    ++folded;
  }
  graph.nodes = std::move(kept);
  return folded;
}

}  // namespace

const Pass fold_constants = {"fold_constants", "nodes of constants alone are run once", true, fold};

}  // namespace dlpipe::engine::graph
