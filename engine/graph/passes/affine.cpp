#include "dlpipe/engine/graph/passes/affine.h"

#include <algorithm>

#include "dlpipe/engine/graph/matching.h"

namespace dlpipe::engine::graph {

namespace {

// Row o of [O, ...] times factor[o].
Tensor scaled_rows(const Tensor& weight, const std::vector<double>& factor) {
  Tensor scaled = weight.contiguous_copy();
  auto* const values = scaled.data<float>();
  const int64_t row = weight.elements() / std::max<int64_t>(1, weight.size(0));  // there may be no rows
  for (int64_t i = 0; i < weight.elements(); ++i)
    values[i] = static_cast<float>(values[i] * factor[static_cast<size_t>(i / row)]);
  return scaled;
}

Tensor changed_bias(const Graph& graph, const Node& product, const Affine& affine) {
  std::vector<float> bias;
  std::vector<double> old(affine.factor.size(), 0.0);
  if (const ValueId given = input_or_none(product, 2); given != kNone)
    old = graph.value(given).constant.to_doubles();
  for (size_t i = 0; i < old.size(); ++i)
    bias.push_back(static_cast<float>(old[i] * affine.factor[i] + affine.offset[i]));
  return Tensor::from<float>(bias, {static_cast<int64_t>(bias.size())});
}

bool has_no_activation(const Node& node) {
  return attribute(node, "activation") == AttrValue(std::string("none"));
}

}  // namespace

int product_behind(const Graph& graph, ValueId id, const Walk& walk) {
  const int index = walk.producer(id);
  if (index < 0 || walk.uses(id) != 1) return -1;
  const Node& product = graph.nodes[static_cast<size_t>(index)];
  if ((!is_op(product, "conv2d") && !is_op(product, "linear")) || !has_no_activation(product)) return -1;
  for (size_t i = 1; i < product.inputs.size(); ++i) {
    if (product.inputs[i] == kNone) continue;
    const Value& weight = graph.value(product.inputs[i]);
    if (!weight.is_constant() || weight.dtype != DType::kF32) return -1;
  }
  // Products that share their weights get weights of their own each.
  if (bytes_of(graph.value(product.inputs[1])) > graph.constant_bytes_left) return -1;
  return index;
}

void put_into_weights(Graph& graph, size_t product, const Affine& affine) {
  const Value weight = graph.value(graph.nodes[product].inputs[1]);
  graph.constant_bytes_left -= bytes_of(weight);
  const ValueId scaled = graph.add_constant(weight.name, scaled_rows(weight.constant, affine.factor));
  const ValueId bias =
      graph.add_constant(beside(weight.name, "bias"), changed_bias(graph, graph.nodes[product], affine));
  Node& node = graph.nodes[product];
  node.inputs.resize(3);
  node.inputs[1] = scaled;
  node.inputs[2] = bias;
}

}  // namespace dlpipe::engine::graph
