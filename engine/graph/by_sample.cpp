#include "dlpipe/engine/graph/by_sample.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "dlpipe/engine/graph/matching.h"

namespace dlpipe::engine::graph {

namespace {

// Of a node's inputs and outputs: a part of a last-level cache of 32 MiB that weights and other programs leave. MobileNetV2
// has 5.4 MiB a picture; on one core of a Zen 4 two pictures at a time took 7.8 ms each, four 10.2 and 32 18.8.
constexpr int64_t kPartBytes = int64_t{12} << 20;

// Ops that compute each row of axis 0 by itself, whatever their attributes.
constexpr std::array kRowwise = std::to_array<std::string_view>(
    {"add",  "add_relu",   "avg_pool2d", "cast", "clip",    "conv2d", "conv_pair",       "conv_unit",
     "div",  "embedding",  "erf",        "exp",  "flatten", "gelu",   "global_avg_pool", "linear",
     "log",  "max_pool2d", "mul",        "relu", "reshape", "scale",  "self_attention",  "sigmoid",
     "silu", "sqrt",       "sub",        "tanh"});
// Those that do where they don't work along axis 0.
constexpr std::array kAlongAxis =
    std::to_array<std::string_view>({"concat", "log_softmax", "slice", "softmax"});

bool depends_on_inputs(const Value& value) {
  return value.batch_axes != 0;
}

bool is_rowwise(const Graph& graph, const Node& node) {
  const std::string_view name = node.op->record->name;
  if (std::find(kRowwise.begin(), kRowwise.end(), name) != kRowwise.end()) return true;
  if (name == "transpose") {
    const AttrValue permutation = attribute(node, "permutation");
    const auto* const axes = std::get_if<std::vector<int64_t>>(&permutation);
    return axes != nullptr && !axes->empty() && axes->front() == 0;
  }
  if (std::find(kAlongAxis.begin(), kAlongAxis.end(), name) == kAlongAxis.end()) return false;
  const AttrValue axis = attribute(node, "axis");
  const auto* const number = std::get_if<int64_t>(&axis);
  return number != nullptr && *number != 0 && *number != -graph.value(node.inputs[0]).shape.rank();
}

int64_t bytes_of(const Value& value) {
  return value.is_constant() ? 0 : value.shape.elements() * static_cast<int64_t>(dtype_size(value.dtype));
}

}  // namespace

bool is_by_sample(const Graph& graph) {
  const auto is_batch = [&](ValueId id) { return graph.value(id).batch_axes == bit(0); };
  if (!std::all_of(graph.inputs.begin(), graph.inputs.end(), is_batch)) return false;
  if (!std::all_of(graph.outputs.begin(), graph.outputs.end(), is_batch)) return false;
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    bool depends = false;
    for (const ValueId id : node.inputs) {
      if (id == kNone || graph.value(id).is_constant() || !depends_on_inputs(graph.value(id))) continue;
      depends = true;
      if (!is_batch(id)) return false;
    }
    // What doesn't depend on the inputs is made anew for each part; an answer without a batch was summed over it.
    return !depends ||
           (is_rowwise(graph, node) && std::all_of(node.outputs.begin(), node.outputs.end(), is_batch));
  });
}

int64_t samples_at_a_time(const Graph& graph) {
  const bool has_units = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return is_op(node, "conv_unit") || is_op(node, "conv_pair");
  });
  if (!has_units || !is_by_sample(graph)) return 0;
  int64_t most = 1;
  for (const Node& node : graph.nodes) {
    int64_t bytes = 0;
    for (const ValueId id : node.inputs) bytes += id == kNone ? 0 : bytes_of(graph.value(id));
    for (const ValueId id : node.outputs) bytes += bytes_of(graph.value(id));
    most = std::max(most, bytes);
  }
  return std::max<int64_t>(1, kPartBytes / most);
}

}  // namespace dlpipe::engine::graph
