// Passes that fuse consecutive elementwise ops, or those after a product, into one pass over memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "engine/graph/matching.h"
#include "engine/graph/passes.h"
#include "engine/ops/elementwise_chain.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine::graph {

// Fuses a relu or gelu that is the only reader of a convolution, linear or batch norm into that node. The records guarantee
// the same bits (OpRecord::fused).

namespace {

/// Fuses `activation` into `node`; false if the node doesn't support it, or already has one.
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

int fuse_activations(Graph& graph) {
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

const Pass fuse_activation = {"fuse_activation",
                              "relu and gelu run in the same pass as the product or batch norm before them",
                              true, fuse_activations};

// relu(add(batch_norm(x), r)) becomes batch_norm(x, residual r) with relu, with the same bits. The intermediate values must have no
// other reader. Only for training: in inference form, fold_batch_norm is better.

namespace {

// Nodes that lose their readers are left for remove_dead_nodes.
int fuse_residuals(Graph& graph) {
  int fused = 0;
  const Makers makers(graph);
  for (Node& node : graph.nodes) {
    if (!is_op(node, "relu")) continue;
    const Node* const add = makers.maker_for_us(node.inputs[0], "add");
    if (add == nullptr) continue;
    for (size_t side = 0; side < 2; ++side) {
      const Node* const norm = makers.maker_for_us(add->inputs[side], "batch_norm");
      const ValueId residual = add->inputs[1 - side];
      if (norm == nullptr || input_or_none(*norm, 5) != kNone ||
          attribute(*norm, "relu") != AttrValue(false) ||
          !(graph.value(residual).shape == graph.value(node.outputs[0]).shape) ||
          graph.value(residual).batch_axes != graph.value(node.outputs[0]).batch_axes)
        continue;
      Node whole = *norm;
      whole.inputs.resize(5, kNone);
      whole.inputs.push_back(residual);
      whole.outputs = node.outputs;
      set_attribute(whole, "relu", true);
      node = std::move(whole);
      ++fused;
      break;
    }
  }
  return fused;
}

}  // namespace

const Pass fuse_norm_residual = {"fuse_norm_residual",
                                 "a sum and the relu behind it run in the pass of the batch norm before them",
                                 true, fuse_residuals};

// relu(add(a, b)) becomes add_relu(a, b), one pass over memory, with the same bits. The sum must have no other reader.

namespace {

// Nodes that lose their readers are left for remove_dead_nodes.
int fuse_sums(Graph& graph) {
  int fused = 0;
  const Makers makers(graph);
  for (Node& node : graph.nodes) {
    if (!is_op(node, "relu")) continue;
    const Node* const add = makers.maker_for_us(node.inputs[0], "add");
    if (add == nullptr) continue;
    become(node, "add_relu", add->inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_add_relu = {"fuse_add_relu", "an add and the relu after it run in one pass", true, fuse_sums};

// gelu and silu that exporters write as formulas become these ops, each in one pass over memory:
//
//   mul(x, sigmoid(x))                           silu(x)               within silu's tolerance
//   mul(mul(x, add(erf(x / sqrt 2), 1)), 0.5)    gelu(x)               within gelu's tolerance
//
// Constants may be on either side of an op. Intermediate values must have no other reader.

namespace {

class WrittenOut {
 public:
  explicit WrittenOut(const Graph& graph) : graph_(graph), makers_(graph) {}

  // The x of a gelu(x) written as a formula with `node` as its last op.
  ValueId gelu_input(const Node& node) const {
    ValueId product = scaled(node, 0.5, 0);
    if (product != kNone) {
      const Node* const mul = makers_.maker_for_us(product, "mul");
      return mul == nullptr ? kNone : gelu_factors(mul->inputs[0], mul->inputs[1], false);
    }
    // (x / 2) (1 + erf(...))
    return is_op(node, "mul") ? gelu_factors(node.inputs[0], node.inputs[1], true) : kNone;
  }
  ValueId silu_input(const Node& node) const {
    if (!is_op(node, "mul")) return kNone;
    for (const size_t side : {0, 1}) {
      const Node* const sigmoid = makers_.maker_for_us(node.inputs[1 - side], "sigmoid");
      if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[side]) return node.inputs[side];
    }
    return kNone;
  }

 private:
  // The x if `node` computes x * factor + offset in any form; else kNone.
  ValueId scaled(const Node& node, double factor, double offset) const {
    const auto is_near = [](double a, double b) { return std::fabs(a - b) < 1e-6; };
    if (is_op(node, "scale")) {
      const auto& attrs = node.attrs.as<ScaleAttrs>();
      return is_near(attrs.factor, factor) && is_near(attrs.offset, offset) ? node.inputs[0] : kNone;
    }
    const std::optional<OperandAndNumber> given = operand_and_number(graph_, node);
    if (!given) return kNone;
    const bool fits = (is_op(node, "mul") && is_near(given->number, factor) && offset == 0) ||
                      (is_op(node, "div") && given->is_number_last && is_near(1.0 / given->number, factor) &&
                       offset == 0) ||
                      (is_op(node, "add") && factor == 1 && is_near(given->number, offset));
    return fits ? given->operand : kNone;
  }
  ValueId scaled_value(ValueId id, double factor, double offset) const {
    for (const char* const op : {"scale", "mul", "div", "add"}) {
      if (const Node* const node = makers_.maker_for_us(id, op); node != nullptr)
        return scaled(*node, factor, offset);
    }
    return kNone;
  }
  // The x if one factor is x (x / 2 if `halved`) and the other is 1 + erf(x / sqrt 2); else kNone.
  ValueId gelu_factors(ValueId a, ValueId b, bool halved) const {
    for (int side = 0; side < 2; ++side, std::swap(a, b)) {
      const ValueId erf_value = scaled_value(b, 1, 1);
      const Node* const erf = makers_.maker_for_us(erf_value, "erf");
      const ValueId x = erf == nullptr ? kNone : scaled_value(erf->inputs[0], 1 / std::numbers::sqrt2, 0);
      if (x == kNone) continue;
      if (x == (halved ? scaled_value(a, 0.5, 0) : a)) return x;
    }
    return kNone;
  }

  const Graph& graph_;
  Makers makers_;
};

// Nodes that lose their readers are left for remove_dead_nodes.
int fuse_what_is_written_out(Graph& graph) {
  int fused = 0;
  const WrittenOut written_out(graph);
  for (Node& node : graph.nodes) {
    if (const ValueId x = written_out.gelu_input(node); x != kNone) {
      become(node, "gelu", {x});
      ++fused;
    } else if (const ValueId y = written_out.silu_input(node); y != kNone) {
      become(node, "silu", {y});
      ++fused;
    }
  }
  return fused;
}

}  // namespace

const Pass fuse_written_out = {"fuse_written_out", "gelu and silu written as formulas become these ops",
                               false, fuse_what_is_written_out};

// Joins elementwise ops of one shape into one elementwise_chain, one pass over memory:
//
//   mul(x, clip(scale(x)))        elementwise_chain(x) steps=scale(x0) ...; clip(y0) ...; mul(x0,y1)        the same bits
//
// An operand from outside has the shape of the result, or one number per channel, or one number. All readers of an intermediate
// value must be in the chain; there may be several.

namespace {

constexpr int kOfTheGraph = -1;  // the reader of an output of the graph, instead of a node

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph)
      : graph_(graph), producers_(graph.producers()), readers_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (id != kNone) readers_[static_cast<size_t>(id)].push_back(static_cast<int>(i));
      }
    }
    for (const ValueId id : graph.outputs) readers_[static_cast<size_t>(id)].push_back(kOfTheGraph);
  }

  // The nodes that can be joined with node `last`, in order, including `last`. Goes backwards, because a node can only join
  // if all its readers, which come after it, have joined.
  std::set<int> chain_to(int last) const {
    std::set<int> chain, candidates = {last};
    std::map<ValueId, int> entering;  // the chain's inputs, and how often the chain reads each
    while (!candidates.empty()) {
      const int index = *candidates.rbegin();
      candidates.erase(index);
      if (!can_join(index, last, chain)) continue;
      const auto made = entering.extract(node(index).outputs[0]);
      for (const ValueId id : node(index).inputs) ++entering[id];
      if (entering.size() > static_cast<size_t>(OpRecord::kMostInputs)) {
        for (const ValueId id : node(index).inputs) {
          if (--entering[id] == 0) entering.erase(id);
        }
        if (!made.empty()) entering[made.key()] = made.mapped();
        continue;
      }
      chain.insert(index);
      for (const ValueId id : node(index).inputs) {
        const int maker = producers_[static_cast<size_t>(id)];
        if (maker >= 0) candidates.insert(maker);
      }
    }
    return chain;
  }

  // The chain's inputs, each value once, in the order in which the nodes read them.
  std::vector<ValueId> inputs_of(const std::set<int>& chain) const {
    std::vector<ValueId> inputs;
    for (const int index : chain) {
      for (const ValueId id : node(index).inputs) {
        if (chain.contains(producers_[static_cast<size_t>(id)])) continue;
        if (std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
      }
    }
    return inputs;
  }

  Node joined(const std::set<int>& chain) const {
    const std::vector<ValueId> inputs = inputs_of(chain);
    std::map<ValueId, int> operands;
    for (size_t i = 0; i < inputs.size(); ++i) operands[inputs[i]] = static_cast<int>(i);
    ChainAttrs attrs;
    for (const int index : chain) {
      ChainStep step{node(index).op, node(index).attrs, {}};
      for (const ValueId id : node(index).inputs) step.operands.push_back(operands.at(id));
      operands[node(index).outputs[0]] = answer_of_step(attrs.steps.size());
      attrs.steps.push_back(std::move(step));
    }
    return {&row_of("elementwise_chain"), std::move(attrs), inputs, node(*chain.rbegin()).outputs, 0};
  }

 private:
  const Node& node(int index) const { return graph_.nodes[static_cast<size_t>(index)]; }

  bool can_join(int index, int last, const std::set<int>& chain) const {
    if (!is_elementwise(*node(index).op->record)) return false;
    const Value& answer = graph_.value(node(last).outputs[0]);
    const Value& own = graph_.value(node(index).outputs[0]);
    if (own.shape != answer.shape || own.batch_axes != answer.batch_axes || own.dtype != answer.dtype)
      return false;
    const std::vector<int>& readers = readers_[static_cast<size_t>(node(index).outputs[0])];
    if (index != last &&
        !std::all_of(readers.begin(), readers.end(), [&](int reader) { return chain.contains(reader); }))
      return false;
    return std::all_of(node(index).inputs.begin(), node(index).inputs.end(), [&](ValueId id) {
      return std::ranges::all_of(std::array{1, 2}, [&](int64_t batch) {
        return extent_of(graph_.value(id).shape_at(batch), answer.shape_at(batch)).has_value();
      });
    });
  }

  const Graph& graph_;
  std::vector<int> producers_;             // of values
  std::vector<std::vector<int>> readers_;  // of values
};

// Goes backwards from the last node, so that chains are as long as possible. Leaves nodes without readers for remove_dead_nodes.
int fuse_chains(Graph& graph) {
  int joined = 0;
  const ChainFinder finder(graph);
  std::set<int> taken;
  std::map<size_t, Node> made;
  for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i) {
    if (taken.contains(i)) continue;
    const std::set<int> chain = finder.chain_to(i);
    if (chain.size() < 2) continue;
    taken.insert(chain.begin(), chain.end());
    made[static_cast<size_t>(i)] = finder.joined(chain);
    joined += static_cast<int>(chain.size()) - 1;
  }
  for (auto& [index, node] : made) graph.nodes[index] = std::move(node);
  return joined;
}

}  // namespace

const Pass fuse_elementwise_chains = {
    "fuse_elementwise_chains", "consecutive elementwise ops run in one pass over memory", true, fuse_chains};

Graph without_chains(Graph graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (!is_op(node, "elementwise_chain")) {
      nodes.push_back(std::move(node));
      continue;
    }
    const std::vector<ChainStep>& steps = node.attrs.as<ChainAttrs>().steps;
    std::vector<ValueId> answers;
    for (const ChainStep& step : steps) {
      const bool is_last = &step == &steps.back();
      Value value = graph.value(node.outputs[0]);
      value.name += concat(".", answers.size());
      answers.push_back(is_last ? node.outputs[0] : graph.add_value(std::move(value)));
      Node own{step.op, step.attrs, {}, {answers.back()}, 0};
      for (const int operand : step.operands)
        own.inputs.push_back(operand >= 0 ? node.inputs[static_cast<size_t>(operand)]
                                          : answers[static_cast<size_t>(-1 - operand)]);
      nodes.push_back(std::move(own));
    }
  }
  graph.nodes = std::move(nodes);
  infer_shapes(graph);
  return graph;
}

}  // namespace dlpipe::engine::graph
