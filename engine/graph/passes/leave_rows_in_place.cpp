// A linear computes each row by itself. Where its rows are put into another order before it and back behind it, as PyTorch's
// attention does for batches that come first, it takes them as they lie:
//
//   y = transpose(linear(transpose(x), weight))        y = linear(x, weight)
//
// Reshapes and transposes may stand on both sides. The orders are compared on numbered elements.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/passes/views.h"
#include "dlpipe/engine/ops/reshape.h"

namespace dlpipe::engine::graph {

namespace {

class Rows {
 public:
  explicit Rows(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {
    for (size_t id = 0; id < graph.values.size(); ++id)
      shared_.push_back({static_cast<ValueId>(id)}), own_.push_back({static_cast<ValueId>(id)});
  }

  // Another node reads `id` from now on.
  void add_reader(ValueId id) { ++uses_[static_cast<size_t>(id)]; }
  // A value that was added, which one node reads.
  void add_value() {
    uses_.push_back(1);
    producers_.push_back(-1);
    shared_.push_back({static_cast<ValueId>(shared_.size())});
    own_.push_back({static_cast<ValueId>(own_.size())});
  }
  // `node` is the next one, and stays as it is.
  void pass(const Node& node) {
    if (!is_view(node)) return;
    const auto in = static_cast<size_t>(node.inputs[0]), out = static_cast<size_t>(node.outputs[0]);
    shared_[out] = through(shared_[in], node);
    if (uses_[out] == 1) own_[out] = through(own_[in], node);
  }

  static bool is_view(const Node& node) { return is_op(node, "transpose") || is_op(node, "reshape"); }

  // The linear whose rows have been turned before and are turned back in `node`, its last view; -1: none. `source`: the rows
  // as they lie.
  int linear_of(const Node& node, ValueId& source) {
    last_ = node.outputs[0];
    const Views behind = through(own_[static_cast<size_t>(node.inputs[0])], node);
    const int index = producers_[static_cast<size_t>(behind.source)];
    if (behind.turns == 0 || index < 0 || uses_[static_cast<size_t>(behind.source)] != 1) return -1;
    const Node& linear = graph_.nodes[static_cast<size_t>(index)];
    if (!is_op(linear, "linear")) return -1;
    const Views before = shared_[static_cast<size_t>(linear.inputs[0])];
    source = before.source;
    // Of long chains the end alone is looked at: looks at each part of them would take the square of their length.
    if (before.count + behind.count > kMostViews && is_read_by_a_view_alone(last_)) return -1;
    const bool turned = before.turns > 0 && graph_.value(source).shape.elements() <= kMostCounted &&
                        graph_.value(last_).shape.elements() <= kMostCounted &&
                        is_turned_back(linear, source, 2) && is_turned_back(linear, source, 3);
    return turned ? index : -1;
  }

 private:
  // The value before the views that a value is made by, how many of them there are, and how many are transposes.
  struct Views {
    ValueId source;
    int count = 0;
    int turns = 0;
  };
  static Views through(Views views, const Node& view) {
    return {views.source, views.count + 1, views.turns + (is_op(view, "transpose") ? 1 : 0)};
  }
  bool is_read_by_a_view_alone(ValueId id) {
    if (view_reads_.empty()) {
      view_reads_.resize(graph_.values.size(), false);
      for (const Node& node : graph_.nodes) {
        if (is_view(node)) view_reads_[static_cast<size_t>(node.inputs[0])] = true;
      }
    }
    return uses_[static_cast<size_t>(id)] == 1 && view_reads_[static_cast<size_t>(id)];
  }

  bool is_turned_back(const Node& linear, ValueId source, int64_t batch) const {
    const Value &x = graph_.value(linear.inputs[0]), &product = graph_.value(linear.outputs[0]);
    const int64_t in = x.shape[-1], out = product.shape[-1];
    const Value& last = graph_.value(last_);
    const int rank =
        last.shape.rank();  // rows_like() keeps all axes but the last, which then must not be the batch's
    if (rank < 2 || (last.batch_axes & bit(rank - 1)) != 0 || last.shape[-1] != out) return false;
    const std::vector<double> before = through_views(graph_, producers_, source, linear.inputs[0],
                                                     counted(graph_.value(source).shape_at(batch)), batch)
                                           .to_doubles();
    std::vector<double> rows;  // of the product, numbered as the source's rows lie
    for (size_t i = 0; i < before.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % in;
      const double row = (before[i] - static_cast<double>(column)) / static_cast<double>(in);
      if (row != std::floor(row)) return false;
      if (column > 0) continue;
      for (int64_t k = 0; k < out; ++k)
        rows.push_back(row * static_cast<double>(out) + static_cast<double>(k));
    }
    const Tensor answer = through_views(graph_, producers_, linear.outputs[0], last_,
                                        Tensor::from<double>(rows, product.shape_at(batch)), batch);
    const std::vector<double> behind = answer.to_doubles();
    for (size_t i = 0; i < behind.size(); ++i) {
      if (behind[i] != static_cast<double>(i)) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<int> uses_, producers_;
  std::vector<Views> shared_;  // of values; views that others read, too, are gone through
  std::vector<Views> own_;     // of values; those alone that nobody else reads
  std::vector<bool> view_reads_;
  ValueId last_ = kNone;
};

// `source` in the shape of `like`, but for the last axis; by a reshape in `before` where it hasn't that.
ValueId rows_like(Graph& graph, ValueId source, ValueId like, int64_t in, std::vector<Node>& before) {
  Value rows;
  rows.name = concat(graph.value(like).name, ".rows");
  rows.shape = graph.value(like).shape;
  rows.shape[-1] = in;
  rows.batch_axes = graph.value(like).batch_axes;
  rows.dtype = graph.value(source).dtype;
  if (graph.value(source).shape == rows.shape && graph.value(source).batch_axes == rows.batch_axes)
    return source;
  Node reshape{&row_of("reshape"), ReshapeAttrs{rows.shape}, {source}, {}, rows.batch_axes};
  const ValueId made = graph.add_value(std::move(rows));
  reshape.outputs = {made};
  before.push_back(std::move(reshape));
  return made;
}

// Nodes that lose their reader stay, for remove_dead_nodes.
int leave(Graph& graph) {
  int left = 0;
  Rows rows(graph);
  std::map<size_t, std::vector<Node>> before;  // nodes
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!Rows::is_view(graph.nodes[i])) continue;
    ValueId source = kNone;
    const int linear = rows.linear_of(graph.nodes[i], source);
    if (linear < 0) {
      rows.pass(graph.nodes[i]);
      continue;
    }
    Node product = graph.nodes[static_cast<size_t>(linear)];
    const ValueId answer = graph.nodes[i].outputs[0];
    const int64_t in = graph.value(product.inputs[0]).shape[-1];
    product.inputs[0] = rows_like(graph, source, answer, in, before[i]);
    rows.add_reader(source);
    if (!before[i].empty()) rows.add_value();
    product.outputs = {answer};
    graph.nodes[i] = std::move(product);
    ++left;
  }
  if (left == 0) return 0;
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto more = before.find(i); more != before.end())
      std::ranges::move(more->second, std::back_inserter(nodes));
    nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
  return left;
}

}  // namespace

const Pass leave_rows_in_place = {
    "leave_rows_in_place",
    "a linear whose rows are turned before it and back behind it takes them as they lie", false, leave};

}  // namespace dlpipe::engine::graph
