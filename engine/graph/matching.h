// What passes and exporters ask of nodes: which op, which attribute, who makes what they read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine::graph {

bool is_op(const Node& node, std::string_view name);
/// The built-in op's row; kInternal where there is none.
const OpRow& row_of(std::string_view name);
/// kInternal where the op has no such attribute.
AttrValue attribute(const Node& node, std::string_view name);
void set_attribute(Node& node, std::string_view name, AttrValue value);
/// kNone, too, where the node's list ends before an optional input.
ValueId input_or_none(const Node& node, size_t i);
/// Makes `node` another op without attributes, of the same outputs.
void become(Node& node, std::string_view op, std::vector<ValueId> inputs);

/// An operand of a node and the number that the other one is.
struct OperandAndNumber {
  ValueId operand;
  double number;
  bool is_number_last;  // x / 2, not 2 / x
};
/// Of a node of two inputs, one of them a constant of one element; none where that gives the answer another shape than the
/// operand's: a constant may have more axes.
std::optional<OperandAndNumber> operand_and_number(const Graph& graph, const Node& node);

/// Who makes the values of a graph and how many read them, as they were when it was made.
class Makers {
 public:
  explicit Makers(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {}
  /// The node that makes `id`; nullptr: none.
  const Node* maker(ValueId id) const;
  /// The same where it is `op` and `id` has this one reader.
  const Node* maker_for_us(ValueId id, std::string_view op) const;
  /// Graph::producers().
  const std::vector<int>& producers() const { return producers_; }

 private:
  const Graph& graph_;
  std::vector<int> uses_, producers_;
};

/// A pass's walk over the nodes from front to back, which takes nodes away and puts others in their place, with what it asks about
/// values kept right all the while: a pass costs a look at each node, however much it changes. Nothing has changed its place in
/// graph.nodes before finish(), which ends the walk.
class Walk {
 public:
  explicit Walk(Graph& graph);
  /// Node `i`, behind all that were asked for before: it reads what stands for its inputs by now.
  Node& node(size_t i);
  /// How many nodes and outputs of the graph read `id`.
  int uses(ValueId id) const { return is_known(id) ? uses_[static_cast<size_t>(id)] : 0; }
  /// The node that makes `id`; -1: none, or one that the walk added.
  int producer(ValueId id) const { return is_known(id) ? producers_[static_cast<size_t>(id)] : -1; }
  /// Node `i` goes, and `by`, which it alone read, stands for its output.
  void remove(size_t i, ValueId by);
  void add_behind(size_t i, Node node) { behind_[i].push_back(std::move(node)); }
  void finish();

 private:
  bool is_known(ValueId id) const { return static_cast<size_t>(id) < uses_.size(); }
  ValueId now(ValueId id) const { return id == kNone || !is_known(id) ? id : now_[static_cast<size_t>(id)]; }

  Graph& graph_;
  std::vector<int> uses_, producers_;
  std::vector<ValueId> now_;  // what stands for a value
  std::vector<bool> is_gone_;
  std::map<size_t, std::vector<Node>> behind_;
};

/// Another tensor of the same module: ("conv1.weight", "bias") -> "conv1.bias".
std::string beside(std::string_view weight, std::string_view name);

}  // namespace dlpipe::engine::graph
