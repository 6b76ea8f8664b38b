// Helpers for passes and exporters: a node's op, attributes, and the nodes that compute its inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/graph.h"
#include "engine/core/attr_form.h"

namespace dlpipe::engine::graph {

bool is_op(const Node& node, std::string_view name);
/// The built-in op's row; kInternal if there is none.
const OpRow& row_of(std::string_view name);
/// kInternal if the op has no such attribute.
AttrValue attribute(const Node& node, std::string_view name);
void set_attribute(Node& node, std::string_view name, AttrValue value);
/// Input `i`; also kNone if the node's list ends before an optional input.
ValueId input_or_none(const Node& node, size_t i);
/// Changes `node` to another op without attributes, with the same outputs.
void become(Node& node, std::string_view op, std::vector<ValueId> inputs);

/// A node's operand, and its other operand, which is a number.
struct OperandAndNumber {
  ValueId operand;
  double number;
  bool is_number_last;  // x / 2, not 2 / x
};
/// For a node with two inputs, one of them a constant of one element. nullopt if the result's shape differs from the operand's,
/// because the constant has more axes.
std::optional<OperandAndNumber> operand_and_number(const Graph& graph, const Node& node);

/// The node that computes each value of a graph and the number of its readers, at the time of construction.
class Makers {
 public:
  explicit Makers(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {}
  /// The node that computes `id`; nullptr: none.
  const Node* maker(ValueId id) const;
  /// The node that computes `id` if its op is `op` and `id` has only one reader; else nullptr.
  const Node* maker_for_us(ValueId id, std::string_view op) const;
  /// Graph::producers().
  const std::vector<int>& producers() const { return producers_; }

 private:
  const Graph& graph_;
  std::vector<int> uses_, producers_;
};

/// A pass's walk over the nodes from front to back. It can remove and replace nodes, and keeps uses() and producer() up to date,
/// so that a pass visits each node once, however much it changes. Nodes keep their index in graph.nodes until finish(), which
/// ends the walk.
class Walk {
 public:
  explicit Walk(Graph& graph);
  /// Node `i`, after all previously visited ones, with its inputs replaced by their current values.
  Node& node(size_t i);
  /// How many nodes and outputs of the graph read `id`.
  int uses(ValueId id) const { return is_known(id) ? uses_[static_cast<size_t>(id)] : 0; }
  /// The node that computes `id`; -1: none, or one that the walk added.
  int producer(ValueId id) const { return is_known(id) ? producers_[static_cast<size_t>(id)] : -1; }
  /// Removes node `i` and replaces its output by `by`, which only this node reads.
  void remove(size_t i, ValueId by);
  void add_behind(size_t i, Node node) { behind_[i].push_back(std::move(node)); }
  void finish();

 private:
  bool is_known(ValueId id) const { return static_cast<size_t>(id) < uses_.size(); }
  ValueId now(ValueId id) const { return id == kNone || !is_known(id) ? id : now_[static_cast<size_t>(id)]; }

  Graph& graph_;
  std::vector<int> uses_, producers_;
  std::vector<ValueId> now_;  // the current replacement of a value
  std::vector<bool> is_gone_;
  std::map<size_t, std::vector<Node>> behind_;
};

/// The name of another tensor of the same module: ("conv1.weight", "bias") -> "conv1.bias".
std::string beside(std::string_view weight, std::string_view name);

// Folds y * factor + offset per channel into the weights of the convolution or linear that computes y; used by several
// passes. Computed in f64 and rounded once.

struct Affine {
  std::vector<double> factor, offset;  // one per channel
};

/// The node that computes `id`, if an affine can be folded into it: a convolution or linear without activation, with constant
/// f32 weights, and with `id` read only once. -1: none.
int product_behind(const Graph& graph, ValueId id, const Walk& walk);

/// Replaces the weights and bias of `product`.
void put_into_weights(Graph& graph, size_t product, const Affine& affine);

// How reshapes, transposes and slices move the elements of a value.

/// Passes look back over at most kMostViews of them, and only at values with at most kMostCounted elements, which they number.
inline constexpr int kMostViews = 64;
inline constexpr int64_t kMostCounted = int64_t{1} << 24;

/// Computes the value `id` for a batch of `batch` if the value `source` is `numbers`. All nodes between them have one input.
/// `producers`: Graph::producers().
Tensor through_views(const Graph& graph, const std::vector<int>& producers, ValueId source, ValueId id,
                     const Tensor& numbers, int64_t batch);
/// 0, 1, 2, ...
Tensor counted(const Shape& shape);

}  // namespace dlpipe::engine::graph
