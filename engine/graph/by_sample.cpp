#include "dlpipe/engine/graph/by_sample.h"

#include <algorithm>

#include "dlpipe/engine/graph/matching.h"

namespace dlpipe::engine::graph {

namespace {

// Of a node's inputs and outputs: a part of a last-level cache of 32 MiB that weights and other programs leave. MobileNetV2
// has 5.4 MiB a picture; on one core of a Zen 4 two pictures at a time took 7.8 ms each, four 10.2 and 32 18.8.
constexpr int64_t kPartBytes = int64_t{12} << 20;
// Of all parts under way. Two threads with two pictures of MobileNetV2 each have 21 MiB.
constexpr int64_t kPartsBytes = int64_t{24} << 20;

bool is_batch(const Value& value) {
  return value.batch_axes == bit(0);
}

// The inputs of which axis 0 may be the batch.
uint32_t batch_inputs(const Node& node) {
  const OpRecord& record = *node.op->record;
  return record.by_sample == nullptr || record.by_sample(node.attrs) ? record.batch_inputs : 0;
}

bool is_by_sample(const Graph& graph, const Node& node) {
  const uint32_t may_be_batch = batch_inputs(node);
  bool depends = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    const Value& value = graph.value(node.inputs[i]);
    if (value.batch_axes == 0) continue;
    depends = true;
    if (!is_batch(value) || (may_be_batch & bit(static_cast<int>(i))) == 0) return false;
  }
  // What doesn't depend on the inputs is made anew for each part; an answer without a batch was summed over it.
  return !depends || std::all_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId id) { return is_batch(graph.value(id)); });
}

int64_t flowing_bytes(const Value& value) {
  return value.is_constant() ? 0 : static_cast<int64_t>(bytes_of(value));
}

}  // namespace

bool is_by_sample(const Graph& graph) {
  const auto has_batch = [&](ValueId id) { return is_batch(graph.value(id)); };
  return std::all_of(graph.inputs.begin(), graph.inputs.end(), has_batch) &&
         std::all_of(graph.outputs.begin(), graph.outputs.end(), has_batch) &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return is_by_sample(graph, node); });
}

BatchParts batch_parts(const Graph& graph) {
  const bool has_units = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return is_op(node, "conv_unit") || is_op(node, "conv_pair");
  });
  if (!has_units || !is_by_sample(graph)) return {};
  int64_t most = 1;
  for (const Node& node : graph.nodes) {
    int64_t bytes = 0;
    for (const ValueId id : node.inputs) bytes += id == kNone ? 0 : flowing_bytes(graph.value(id));
    for (const ValueId id : node.outputs) bytes += flowing_bytes(graph.value(id));
    most = std::max(most, bytes);
  }
  const int64_t samples = std::max<int64_t>(1, kPartBytes / most);
  return {samples, std::max<int64_t>(1, kPartsBytes / (samples * most))};
}

}  // namespace dlpipe::engine::graph
