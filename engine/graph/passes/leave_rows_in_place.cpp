// A linear computes each row by itself. Where its rows are put into another order before it and back behind it, as PyTorch's
// attention does for batches that come first, it takes them as they lie:
//
//   y = transpose(linear(transpose(x), weight))        y = linear(x, weight)
//
// Reshapes and transposes may stand on both sides. The orders are compared on numbered elements.
#include <algorithm>
#include <cmath>
#include <optional>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/passes/views.h"
#include "dlpipe/engine/ops/reshape.h"

namespace dlpipe::engine::graph {

namespace {

class Rows {
 public:
  explicit Rows(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {}

  // Before the views that `id` is made by, `turns` of which are transposes. Those that others read, too, are gone through only
  // where `shared`.
  ValueId behind_views(ValueId id, bool shared, int& turns) const {
    while (true) {
      const int maker = producers_[static_cast<size_t>(id)];
      if (maker < 0 || (!shared && uses_[static_cast<size_t>(id)] != 1 && id != last_)) return id;
      const Node& node = graph_.nodes[static_cast<size_t>(maker)];
      if (!is_op(node, "transpose") && !is_op(node, "reshape")) return id;
      turns += is_op(node, "transpose") ? 1 : 0;
      id = node.inputs[0];
    }
  }

  // The linear whose rows have been turned before and are turned back in `node`, its last view; -1: none. `source`: the rows
  // as they lie.
  int linear_of(const Node& node, ValueId& source) {
    last_ = node.outputs[0];
    int turns_behind = 0, turns_before = 0;
    const ValueId product = behind_views(last_, false, turns_behind);
    const int index = producers_[static_cast<size_t>(product)];
    if (turns_behind == 0 || index < 0 || uses_[static_cast<size_t>(product)] != 1) return -1;
    const Node& linear = graph_.nodes[static_cast<size_t>(index)];
    if (!is_op(linear, "linear")) return -1;
    source = behind_views(linear.inputs[0], true, turns_before);
    const bool turned =
        turns_before > 0 && is_turned_back(linear, source, 2) && is_turned_back(linear, source, 3);
    return turned ? index : -1;
  }

 private:
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
  ValueId last_ = kNone;
};

// `source` in the shape of `like`, but for the last axis; a reshape before `nodes[at]` where it hasn't that.
ValueId rows_like(Graph& graph, ValueId source, ValueId like, int64_t in, size_t& at) {
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
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at++), std::move(reshape));
  return made;
}

// Nodes that lose their reader stay, for remove_dead_nodes.
int leave(Graph& graph) {
  int left = 0;
  std::optional<Rows> rows;  // of the graph as it is
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_op(graph.nodes[i], "transpose") && !is_op(graph.nodes[i], "reshape")) continue;
    ValueId source = kNone;
    if (!rows) rows.emplace(graph);
    const int linear = rows->linear_of(graph.nodes[i], source);
    if (linear < 0) continue;
    rows.reset();
    Node product = graph.nodes[static_cast<size_t>(linear)];
    const ValueId answer = graph.nodes[i].outputs[0];
    const int64_t in = graph.value(product.inputs[0]).shape[-1];
    product.inputs[0] = rows_like(graph, source, answer, in, i);
    product.outputs = {answer};
    graph.nodes[i] = std::move(product);
    ++left;
  }
  return left;
}

}  // namespace

const Pass leave_rows_in_place = {
    "leave_rows_in_place",
    "a linear whose rows are turned before it and back behind it takes them as they lie", false, leave};

}  // namespace dlpipe::engine::graph
