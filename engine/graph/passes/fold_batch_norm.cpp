// A batch norm by running statistics is y = x * s + t for each channel, s = gamma / sqrt(var + epsilon),
// t = beta - mean * s. Behind a convolution or linear that nobody else reads, s goes into the weights' rows and t
// into the bias (computed in f64, rounded once). Its residual becomes an add, its relu a relu, which later passes
// join again.
#include <cmath>
#include <utility>

#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/passes/affine.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine::graph {

namespace {

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

// The product that the batch norm `norm` can go into; -1: none.
int product_before(const Graph& graph, const Node& norm, const Walk& walk) {
  if (!is_op(norm, "batch_norm") || attribute(norm, "training") == AttrValue(true)) return -1;
  for (size_t i = 1; i < 5; ++i) {
    if (norm.inputs[i] == kNone || !graph.value(norm.inputs[i]).is_constant()) return -1;
  }
  return product_behind(graph, norm.inputs[0], walk);
}

int fold(Graph& graph) {
  int folded = 0;
  Walk walk(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = product_before(graph, walk.node(i), walk);
    if (index < 0) continue;
    const Node norm = graph.nodes[i];
    put_into_weights(graph, static_cast<size_t>(index),
                     affine_of(graph, norm, std::get<double>(attribute(norm, "epsilon"))));
    // What follows takes the norm's place.
    const bool relu = attribute(norm, "relu") == AttrValue(true);
    const ValueId residual = input_or_none(norm, 5);
    const ValueId y = norm.outputs[0];
    std::vector<Node> behind;
    ValueId last = norm.inputs[0];
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
    if (residual != kNone) follow("add", {last, residual}, !relu);
    if (relu) follow("relu", {last}, true);
    if (behind.empty()) {
      walk.remove(i, last);
    } else {
      graph.nodes[i] = behind[0];
      for (size_t k = 1; k < behind.size(); ++k) walk.add_behind(i, std::move(behind[k]));
    }
    ++folded;
  }
  walk.finish();
  return folded;
}

}  // namespace

const Pass fold_batch_norm = {
    "fold_batch_norm", "a batch norm by running statistics goes into the weights before it", false, fold};

}  // namespace dlpipe::engine::graph
