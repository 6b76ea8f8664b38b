// Elementwise ops of one shape whose answers only such ops read become one elementwise_chain, one pass over memory:
//
//   mul(x, clip(scale(x)))        elementwise_chain(x) steps=scale(x0) ...; clip(y0) ...; mul(x0,y1)        the same bits
//
// An operand from outside is as large as the answer, or one number for each channel, or one number. What lies between may have
// several readers, all of them in the chain.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/ops/elementwise_chain.h"

namespace dlpipe::engine::graph {

namespace {

constexpr int kOfTheGraph = -1;  // a reader that is no node: an output

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

  // Nodes that can be one with node `last`, in order, `last` among them. A node's readers stand behind it, so that they have
  // been decided on before it.
  std::set<int> chain_to(int last) const {
    std::set<int> chain, candidates = {last};
    std::map<ValueId, int> entering;  // how many reads of the chain each has
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

  // What enters it, each value once, in the order in which the nodes read them.
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

// From the last node on, so that chains are as long as they can be. Leaves nodes without a reader, for remove_dead_nodes.
int fuse(Graph& graph) {
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
    "fuse_elementwise_chains", "elementwise ops one behind another are one pass over memory", true, fuse};

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
