// Passes that fold constants and merge equal nodes, and the pass that removes dead nodes after the others.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/attr_form.h"
#include "engine/graph/matching.h"
#include "engine/graph/passes.h"

namespace dlpipe::engine::graph {

// Computes nodes with only constant inputs once, now, as a Runner would. Optimized graphs are in inference form: no op is random.

namespace {

bool is_foldable(const Graph& graph, const Node& node) {
  if (node.batch_sizes != 0 || node.inputs.empty()) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == kNone || graph.value(id).is_constant(); });
}

// Takes the bytes of a node's outputs from the budget; false if it is too small. Without a limit, a chain of nodes with growing
// constants could use all memory.
bool take_bytes(Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId id : node.outputs) bytes += bytes_of(graph.value(id));
  if (bytes > graph.constant_bytes_left) return false;
  graph.constant_bytes_left -= bytes;
  return true;
}

int fold_constant_nodes(Graph& graph) {
  const InferenceMode mode;
  std::vector<Node> kept;
  int folded = 0;
  for (Node& node : graph.nodes) {
    if (!is_foldable(graph, node) || !take_bytes(graph, node)) {
      kept.push_back(std::move(node));
      continue;
    }
    std::vector<Tensor> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNone ? Tensor() : graph.value(id).constant);
    const std::vector<Tensor> outputs = apply(*node.op, std::move(inputs), node.attrs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor output = outputs[i];
      if (output.layout() != Layout::kPlain) output = reorder(output, Layout::kPlain);
      graph.value(node.outputs[i]).constant = output.contiguous_copy();
    }
    ++folded;
  }
  graph.nodes = std::move(kept);
  return folded;
}

}  // namespace

const Pass fold_constants = {"fold_constants", "nodes with only constant inputs are run once, when compiling",
                             true, fold_constant_nodes};

// Merges common subexpressions: two nodes of one op with the same inputs and attributes compute the same values. Two outputs of
// the graph stay two values, because a value has only one name.

namespace {

int share(Graph& graph) {
  using Key = std::tuple<const OpRow*, std::vector<ValueId>, std::string, uint32_t>;
  std::map<Key, std::vector<ValueId>> known;
  std::vector<Node> kept;
  const std::vector<Node> nodes = std::move(graph.nodes);
  std::vector<ValueId> same_as(graph.values.size());
  for (size_t i = 0; i < same_as.size(); ++i) same_as[i] = static_cast<ValueId>(i);
  std::vector<bool> is_output(graph.values.size(), false);
  for (const ValueId id : graph.outputs) is_output[static_cast<size_t>(id)] = true;
  const auto has_output = [&](const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(),
                       [&](ValueId id) { return is_output[static_cast<size_t>(id)]; });
  };
  int shared = 0;
  for (Node node : nodes) {
    for (ValueId& id : node.inputs) {
      if (id != kNone) id = same_as[static_cast<size_t>(id)];
    }
    Key key(node.op, node.inputs, attrs_text(list_attrs(*node.op->record, node.attrs)), node.batch_sizes);
    const auto [entry, is_new] = known.try_emplace(std::move(key), node.outputs);
    if (is_new || (has_output(node.outputs) && has_output(entry->second))) {
      kept.push_back(std::move(node));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto own = static_cast<size_t>(node.outputs[i]), first = static_cast<size_t>(entry->second[i]);
      same_as[own] = entry->second[i];
      is_output[first] = is_output[first] || is_output[own];
    }
    ++shared;
  }
  graph.nodes = std::move(kept);
  for (ValueId& id : graph.outputs) id = same_as[static_cast<size_t>(id)];
  return shared;
}

}  // namespace

const Pass share_equal_nodes = {"share_equal_nodes",
                                "nodes with the same op, inputs and attributes are merged", true, share};

// A batch norm with running statistics is y = x * s + t for each channel, s = gamma / sqrt(var + epsilon),
// t = beta - mean * s. After a convolution or linear without other readers, s is folded into the weights' rows and t
// into the bias (computed in f64, rounded once). Its residual becomes an add, its relu a relu, which later passes
// fuse again.

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

// The product that the batch norm `norm` can be folded into; -1: none.
int product_before(const Graph& graph, const Node& norm, const Walk& walk) {
  if (!is_op(norm, "batch_norm") || attribute(norm, "training") == AttrValue(true)) return -1;
  for (size_t i = 1; i < 5; ++i) {
    if (norm.inputs[i] == kNone || !graph.value(norm.inputs[i]).is_constant()) return -1;
  }
  return product_behind(graph, norm.inputs[0], walk);
}

int fold_norms(Graph& graph) {
  int folded = 0;
  Walk walk(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = product_before(graph, walk.node(i), walk);
    if (index < 0) continue;
    const Node norm = graph.nodes[i];
    put_into_weights(graph, static_cast<size_t>(index),
                     affine_of(graph, norm, std::get<double>(attribute(norm, "epsilon"))));
    // The following nodes replace the norm.
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

const Pass fold_batch_norm = {"fold_batch_norm",
                              "a batch norm with running statistics is folded into the weights before it",
                              false, fold_norms};

// A constant per channel that a convolution's or linear's output is multiplied by, or that is added to it, is folded into
// the weights' rows and the bias: exporters write biases of linears and layer scale (ConvNeXt) like this.

namespace {

// One f32 per channel of `to`; channels are its last axis.
bool is_channels(const Value& value, const Value& to) {
  if (!value.is_constant() || value.dtype != DType::kF32 || to.shape.rank() == 0) return false;
  const int64_t channels = to.shape[-1];
  return value.shape.elements() == channels && value.shape.rank() > 0 && value.shape[-1] == channels &&
         value.shape.rank() <= to.shape.rank();
}

// Which input of `node`, 0 or 1, is a product that the other input can be folded into; -1: neither.
int foldable_side(const Graph& graph, const Node& node, const Walk& walk) {
  if (!is_op(node, "mul") && !is_op(node, "add")) return -1;
  for (const int side : {0, 1}) {
    const ValueId value = node.inputs[static_cast<size_t>(side)];
    const ValueId other = node.inputs[static_cast<size_t>(1 - side)];
    const Value& to = graph.value(node.outputs[0]);
    if (is_channels(graph.value(other), to) && graph.value(value).shape == to.shape &&
        product_behind(graph, value, walk) >= 0)
      return side;
  }
  return -1;
}

int fold_channels(Graph& graph) {
  int folded = 0;
  Walk walk(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = walk.node(i);
    const int side = foldable_side(graph, node, walk);
    if (side < 0) continue;
    const ValueId value = node.inputs[static_cast<size_t>(side)];
    const std::vector<double> constant =
        graph.value(node.inputs[static_cast<size_t>(1 - side)]).constant.to_doubles();
    const bool is_factor = is_op(node, "mul");
    const Affine affine = {is_factor ? constant : std::vector<double>(constant.size(), 1.0),
                           is_factor ? std::vector<double>(constant.size(), 0.0) : constant};
    put_into_weights(graph, static_cast<size_t>(product_behind(graph, value, walk)), affine);
    walk.remove(i, value);
    ++folded;
  }
  walk.finish();
  return folded;
}

}  // namespace

const Pass fold_scale_and_shift = {"fold_scale_and_shift",
                                   "constants that channels are multiplied by, or that are added to them, "
                                   "are folded into the weights before them",
                                   false, fold_channels};

namespace {

int remove_dead(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (const ValueId id : graph.outputs) wanted[static_cast<size_t>(id)] = true;
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    bool is_wanted = false;
    for (const ValueId id : node.outputs) is_wanted = is_wanted || wanted[static_cast<size_t>(id)];
    if (!is_wanted) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) wanted[static_cast<size_t>(id)] = true;
    }
    kept.push_back(std::move(node));
  }
  const int removed = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return removed;
}

}  // namespace

const Pass remove_dead_nodes = {"remove_dead_nodes", "nodes that no output depends on are removed", true,
                                remove_dead};

}  // namespace dlpipe::engine::graph
