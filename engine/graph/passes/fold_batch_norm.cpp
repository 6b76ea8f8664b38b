// A batch norm by running statistics is y = x * s + t for each channel, s = gamma / sqrt(var + epsilon),
// t = beta - mean * s. Behind a convolution or linear that nobody else reads, s goes into the weights' rows and t
// into the bias (computed in f64, rounded once). Its residual becomes an add, its relu a relu, which later passes
// join again.
#include <cmath>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine::graph {

namespace {

struct Affine {
  std::vector<double> factor, offset;
};

Affine affine_of(const Graph& graph, const Node& norm, double epsilon) {
  const std::vector<double> gamma = graph.value(norm.inputs[1]).constant.to_doubles();
  const std::vector<double> beta = graph.value(norm.inputs[2]).constant.to_doubles();
  const std::vector<double> mean = graph.value(norm.inputs[3]).constant.to_doubles();
  const std::vector<double> variance = graph.value(norm.inputs[4]).constant.to_doubles();
  Affine affine;
  for (size_t i = 0; i < gamma.size(); ++i) {
    affine.factor.push_back(gamma[i] / std::sqrt(variance[i] + epsilon));
    affine.offset.push_back(beta[i] - mean[i] * affine.factor[i]);
  }
  return affine;
}

// Row o of [O, ...] times factor[o].
Tensor scaled_rows(const Tensor& weight, const std::vector<double>& factor) {
  Tensor scaled = weight.contiguous_copy();
  auto* const values = scaled.data<float>();
  const int64_t row = weight.elements() / weight.size(0);
  for (int64_t i = 0; i < weight.elements(); ++i)
    values[i] = static_cast<float>(values[i] * factor[static_cast<size_t>(i / row)]);
  return scaled;
}

Tensor folded_bias(const Graph& graph, const Node& product, const Affine& affine) {
  std::vector<float> bias;
  std::vector<double> old(affine.factor.size(), 0.0);
  if (product.inputs.size() > 2 && product.inputs[2] != kNone)
    old = graph.value(product.inputs[2]).constant.to_doubles();
  for (size_t i = 0; i < old.size(); ++i)
    bias.push_back(static_cast<float>(old[i] * affine.factor[i] + affine.offset[i]));
  return Tensor::from<float>(bias, {static_cast<int64_t>(bias.size())});
}

bool has_activation(const Node& node) {
  const AttrValue activation = attribute(node, "activation");
  return activation != AttrValue(std::string("none"));
}

// The product that the batch norm `norm` can go into; -1: none.
int product_before(const Graph& graph, const Node& norm, const std::vector<int>& uses,
                   const std::vector<int>& producers) {
  if (!is_op(norm, "batch_norm") || attribute(norm, "training") == AttrValue(true)) return -1;
  const ValueId x = norm.inputs[0];
  const int index = producers[static_cast<size_t>(x)];
  if (index < 0 || uses[static_cast<size_t>(x)] != 1) return -1;
  const Node& product = graph.nodes[static_cast<size_t>(index)];
  if ((!is_op(product, "conv2d") && !is_op(product, "linear")) || has_activation(product)) return -1;
  for (size_t i = 1; i < 5; ++i) {
    if (norm.inputs[i] == kNone || !graph.value(norm.inputs[i]).is_constant()) return -1;
  }
  for (size_t i = 1; i < product.inputs.size(); ++i) {
    if (product.inputs[i] == kNone) continue;
    const Value& weight = graph.value(product.inputs[i]);
    if (!weight.is_constant() || weight.dtype != DType::kF32) return -1;
  }
  return index;
}

int fold(Graph& graph) {
  int folded = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = product_before(graph, graph.nodes[i], graph.uses(), graph.producers());
    if (index < 0) continue;
    const Node norm = graph.nodes[i];
    Node& product = graph.nodes[static_cast<size_t>(index)];
    const Affine affine = affine_of(graph, norm, std::get<double>(attribute(norm, "epsilon")));
    const Value weight = graph.value(product.inputs[1]);
    const Tensor bias = folded_bias(graph, product, affine);
    const std::string bias_name = beside(weight.name, "bias");
    product.inputs[1] = graph.add_constant(weight.name, scaled_rows(weight.constant, affine.factor));
    product.inputs.resize(3);
    product.inputs[2] = graph.add_constant(bias_name, bias);
    // What follows takes the norm's place.
    const bool relu = attribute(norm, "relu") == AttrValue(true);
    const bool residual = norm.inputs.size() > 5 && norm.inputs[5] != kNone;
    const ValueId y = norm.outputs[0];
    std::vector<Node> behind;
    ValueId last = product.outputs[0];
    const auto follow = [&](const char* op, std::vector<ValueId> inputs, bool is_end) {
      ValueId made = y;
      if (!is_end) {
        Value value = graph.value(y);
        value.name = concat(value.name, ".", op);
        made = graph.add_value(std::move(value));
      }
      behind.push_back({&row_of(op), NoAttrs{}, std::move(inputs), {made}, 0});
      last = made;
    };
    if (residual) follow("add", {last, norm.inputs[5]}, !relu);
    if (relu) follow("relu", {last}, true);
    if (behind.empty()) {
      graph.replace_uses(y, last);
      graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
      --i;
    } else {
      graph.nodes[i] = behind[0];
      graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1, behind.begin() + 1,
                         behind.end());
    }
    ++folded;
  }
  return folded;
}

}  // namespace

const Pass fold_batch_norm = {
    "fold_batch_norm", "a batch norm by running statistics goes into the weights before it", false, fold};

}  // namespace dlpipe::engine::graph
