// Passes around products: attention written as separate ops, linears between transposes, convolutions with the ops after them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engine/graph/matching.h"
#include "engine/graph/passes.h"
#include "engine/ops/conv_unit.h"
#include "engine/ops/products.h"
#include "engine/ops/sequences.h"
#include "engine/ops/shape_ops.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine::graph {

// Attention that an exporter writes as separate ops becomes self_attention, which needs no T x T matrix:
//
//   matmul(softmax(matmul(q * a, k * b)), v)      a * b = 1 / sqrt(D)
//
// Exporters cut q, k and v out of one product [B,T,3*H*D] (or [T,B,..]) by reshapes, transposes and slices in many ways.
// To find which elements each of them reads, the views are run on a tensor of element numbers, for a batch of two.

namespace {

constexpr int64_t kBatch = 2;

class AttentionMatch {
 public:
  AttentionMatch(const Graph& graph, const Makers& makers, size_t node)
      : graph_(graph), makers_(makers), node_(node) {
    matches_ = match(graph.nodes[node]);
  }
  size_t node() const { return node_; }
  bool matches() const { return matches_; }
  ValueId source() const { return source_; }
  bool is_batch_first() const { return batch_axis_ == 0; }
  int64_t length() const { return length_; }
  int64_t heads() const { return heads_; }
  int64_t width() const { return width_; }

 private:
  static bool is_plain_matmul(const Node& node) {
    return is_op(node, "matmul") && attribute(node, "transpose_a") == AttrValue(false) &&
           attribute(node, "transpose_b") == AttrValue(false);
  }

  bool match(const Node& last) {
    if (!is_plain_matmul(last)) return false;
    const Value& answer = graph_.value(last.outputs[0]);
    if (answer.shape.rank() != 4 || answer.batch_axes != bit(0) || answer.shape[0] != 1) return false;
    heads_ = answer.shape[1], length_ = answer.shape[2], width_ = answer.shape[3];
    const Node* const softmax = makers_.maker_for_us(last.inputs[0], "softmax");
    if (softmax == nullptr || attribute(*softmax, "axis") != AttrValue(int64_t{3})) return false;
    const Node* const scores = makers_.maker_for_us(softmax->inputs[0], "matmul");
    if (scores == nullptr || !is_plain_matmul(*scores)) return false;
    double factor = 1;
    const ValueId q = unscaled(scores->inputs[0], factor), k = unscaled(scores->inputs[1], factor);
    if (std::fabs(factor * std::sqrt(static_cast<double>(width_)) - 1) > 1e-5) return false;
    source_ = source_of(q);
    if (source_of(k) != source_ || source_of(last.inputs[1]) != source_) return false;
    const Value& source = graph_.value(source_);
    if (source.shape.rank() != 3 || source.shape.elements() > kMostCounted || source.dtype != DType::kF32 ||
        source.is_constant())
      return false;
    batch_axis_ = source.batch_axes == bit(0) ? 0 : 1;
    const Shape wanted =
        batch_axis_ == 0 ? Shape{1, length_, 3 * heads_ * width_} : Shape{length_, 1, 3 * heads_ * width_};
    if (!(source.shape == wanted) || source.batch_axes != bit(batch_axis_)) return false;
    return reads(q, 0, false) && reads(k, 1, true) && reads(last.inputs[1], 2, false);
  }

  // If `id` is x * constant, multiplies `factor` by the constant and returns x; else returns `id`.
  ValueId unscaled(ValueId id, double& factor) const {
    const Node* const mul = makers_.maker(id);
    if (mul == nullptr || !is_op(*mul, "mul")) return id;
    const std::optional<OperandAndNumber> given = operand_and_number(graph_, *mul);
    if (!given) return id;
    factor *= given->number;
    return given->operand;
  }

  static bool is_cut(const Node& node) {
    return is_op(node, "reshape") || is_op(node, "transpose") || is_op(node, "slice");
  }
  ValueId source_of(ValueId id) const {
    const Node* node = makers_.maker(id);
    for (int cuts = 0; node != nullptr && is_cut(*node) && cuts < kMostViews; ++cuts) {
      id = node->inputs[0];
      node = makers_.maker(id);
    }
    return id;
  }

  // Whether `id` is part 0, 1 or 2 (queries, keys, values) of the source, as [B,H,T,D], or [B,H,D,T] if `transposed`.
  bool reads(ValueId id, int64_t part, bool transposed) const {
    const Tensor source = counted(graph_.value(source_).shape_at(kBatch));
    const std::vector<double> numbers =
        through_views(graph_, makers_.producers(), source_, id, source, kBatch).to_doubles();
    const int64_t count = kBatch * heads_ * length_ * width_;
    const Shape wanted =
        transposed ? Shape{kBatch, heads_, width_, length_} : Shape{kBatch, heads_, length_, width_};
    if (static_cast<int64_t>(numbers.size()) != count || !(graph_.value(id).shape_at(kBatch) == wanted))
      return false;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t last = i % (transposed ? length_ : width_), third = i / (transposed ? length_ : width_);
      const int64_t t = transposed ? last : third % length_, d = transposed ? third % width_ : last;
      const int64_t head = i / (length_ * width_) % heads_, b = i / (length_ * width_ * heads_);
      const int64_t row = batch_axis_ == 0 ? b * length_ + t : t * kBatch + b;
      const int64_t expected = ((row * 3 + part) * heads_ + head) * width_ + d;
      if (numbers[static_cast<size_t>(i)] != static_cast<double>(expected)) return false;
    }
    return true;
  }

  const Graph& graph_;
  const Makers& makers_;
  size_t node_;
  bool matches_ = false;
  ValueId source_ = kNone;
  int batch_axis_ = 0;
  int64_t length_ = 0, heads_ = 0, width_ = 0;
};

// The nodes that compute the last matmul's result.
std::vector<Node> attention_nodes(Graph& graph, const Node& last, const AttentionMatch& match) {
  const std::string name = graph.value(last.outputs[0]).name;
  std::vector<Node> nodes;
  const auto follow = [&](const char* op, Attrs attrs, ValueId input, const char* suffix, const Shape& shape,
                          uint32_t batch_sizes = 0) {
    Value value;
    value.name = concat(name, ".", suffix);
    value.shape = shape;
    value.batch_axes = bit(0);
    const ValueId made = graph.add_value(std::move(value));
    nodes.push_back({&row_of(op), std::move(attrs), {input}, {made}, batch_sizes});
    return made;
  };
  const int64_t t = match.length(), h = match.heads(), d = match.width();
  ValueId qkv = match.source();
  if (!match.is_batch_first())
    qkv = follow("transpose", TransposeAttrs{{1, 0, 2}}, qkv, "qkv", {1, t, 3 * h * d});
  const ValueId out =
      follow("self_attention", AttentionAttrs{static_cast<int>(h), false}, qkv, "attention", {1, t, h * d});
  const ValueId heads = follow("reshape", ReshapeAttrs{{1, t, h, d}}, out, "heads", {1, t, h, d}, bit(0));
  nodes.push_back({&row_of("transpose"), TransposeAttrs{{0, 2, 1, 3}}, {heads}, {last.outputs[0]}, 0});
  return nodes;
}

// Nodes that lose their readers are left for remove_dead_nodes.
int fuse_attentions(Graph& graph) {
  const Makers makers(graph);
  std::vector<AttentionMatch> matches;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    AttentionMatch match(graph, makers, i);
    if (match.matches()) matches.push_back(std::move(match));
  }
  if (matches.empty()) return 0;
  std::vector<Node> nodes;
  size_t done = 0;
  for (const AttentionMatch& match : matches) {
    std::move(graph.nodes.begin() + static_cast<std::ptrdiff_t>(done),
              graph.nodes.begin() + static_cast<std::ptrdiff_t>(match.node()), std::back_inserter(nodes));
    std::ranges::move(attention_nodes(graph, graph.nodes[match.node()], match), std::back_inserter(nodes));
    done = match.node() + 1;
  }
  std::move(graph.nodes.begin() + static_cast<std::ptrdiff_t>(done), graph.nodes.end(),
            std::back_inserter(nodes));
  graph.nodes = std::move(nodes);
  return static_cast<int>(matches.size());
}

}  // namespace

const Pass fuse_attention = {"fuse_attention", "attention written as separate ops becomes self_attention",
                             false, fuse_attentions};

// A linear computes each row separately. If its rows are reordered before it and back after it, as PyTorch's attention does for
// batch-first inputs, both transposes are removed:
//
//   y = transpose(linear(transpose(x), weight))        y = linear(x, weight)
//
// There may be reshapes and transposes on both sides. The orders are compared on numbered elements.

namespace {

class Rows {
 public:
  explicit Rows(const Graph& graph) : graph_(graph), uses_(graph.uses()), producers_(graph.producers()) {
    for (size_t id = 0; id < graph.values.size(); ++id)
      shared_.push_back({static_cast<ValueId>(id)}), own_.push_back({static_cast<ValueId>(id)});
  }

  // Records one more reader of `id`.
  void add_reader(ValueId id) { ++uses_[static_cast<size_t>(id)]; }
  // Adds a value with one reader.
  void add_value() {
    uses_.push_back(1);
    producers_.push_back(-1);
    shared_.push_back({static_cast<ValueId>(shared_.size())});
    own_.push_back({static_cast<ValueId>(own_.size())});
  }
  // Records the next node, which the pass doesn't change.
  void pass(const Node& node) {
    if (!is_view(node)) return;
    const auto in = static_cast<size_t>(node.inputs[0]), out = static_cast<size_t>(node.outputs[0]);
    shared_[out] = through(shared_[in], node);
    if (uses_[out] == 1) own_[out] = through(own_[in], node);
  }

  static bool is_view(const Node& node) { return is_op(node, "transpose") || is_op(node, "reshape"); }

  // Finds a linear whose rows are reordered before it and back after it, by views that end with `node`. Returns the linear's
  // index; -1: none. Sets `source` to the rows in the original order.
  int linear_of(const Node& node, ValueId& source) {
    last_ = node.outputs[0];
    const Views behind = through(own_[static_cast<size_t>(node.inputs[0])], node);
    const int index = producers_[static_cast<size_t>(behind.source)];
    if (behind.turns == 0 || index < 0 || uses_[static_cast<size_t>(behind.source)] != 1) return -1;
    const Node& linear = graph_.nodes[static_cast<size_t>(index)];
    if (!is_op(linear, "linear")) return -1;
    const Views before = shared_[static_cast<size_t>(linear.inputs[0])];
    source = before.source;
    // Only the end of a long chain is checked: checking each part would take time quadratic in its length.
    if (before.count + behind.count > kMostViews && is_read_by_a_view_alone(last_)) return -1;
    const bool turned = before.turns > 0 && graph_.value(source).shape.elements() <= kMostCounted &&
                        graph_.value(last_).shape.elements() <= kMostCounted &&
                        is_turned_back(linear, source, 2) && is_turned_back(linear, source, 3);
    return turned ? index : -1;
  }

 private:
  // The value before the views that make a value, the number of views, and how many of them are transposes.
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
        last.shape.rank();  // rows_like() replaces the size of the last axis, so it must not be the batch
    if (rank < 2 || (last.batch_axes & bit(rank - 1)) != 0 || last.shape[-1] != out) return false;
    const std::vector<double> before = through_views(graph_, producers_, source, linear.inputs[0],
                                                     counted(graph_.value(source).shape_at(batch)), batch)
                                           .to_doubles();
    std::vector<double> rows;  // of the product, numbered in the order of the source's rows
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
  std::vector<Views> shared_;  // by value; includes views with other readers
  std::vector<Views> own_;     // by value; only views without other readers
  std::vector<bool> view_reads_;
  ValueId last_ = kNone;
};

// `source` with the shape of `like`, except for the last axis; adds a reshape to `before` if needed.
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

// Nodes that lose their readers are left for remove_dead_nodes.
int leave(Graph& graph) {
  int left = 0;
  Rows rows(graph);
  std::map<size_t, std::vector<Node>> before;  // the nodes to insert before each node
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

const Pass leave_rows_in_place = {"leave_rows_in_place",
                                  "the transposes before and after a linear layer are removed", false, leave};

// In a network with depthwise convolutions, each convolution becomes a conv_unit, together with the clip, relu or silu that is
// its only reader, and the sum after it. Such networks are limited by memory traffic, so fusion matters most, and
// conv_unit's images are always plain. Networks without depthwise convolutions are faster in conv2d's blocked layouts (and
// with its Winograd), so they are left unchanged.

namespace {

bool is_depthwise_convolution(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  const auto& attrs = node.attrs.as<Conv2dAttrs>();
  return attrs.groups > 1 && weight[1] == 1 && weight[0] == attrs.groups;
}

bool can_be_unit(const Graph& graph, const Node& node) {
  if (!is_op(node, "conv2d") || graph.value(node.inputs[0]).dtype != DType::kF32) return false;
  return node.attrs.as<Conv2dAttrs>().groups == 1 || is_depthwise_convolution(graph, node);
}

/// A convolution that becomes a unit, and the node that it ends with.
struct Unit {
  size_t first = 0, last = 0;
  ConvUnitAttrs attrs;
  ValueId residual = kNone;
};

class UnitMaker {
 public:
  explicit UnitMaker(const Graph& graph)
      : graph_(graph), uses_(graph.uses()), first_reader_(graph.values.size(), graph.nodes.size()) {
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (id != kNone) first_reader_[static_cast<size_t>(id)] = i;
      }
    }
  }

  Unit unit_of(size_t conv) const {
    const auto& attrs = graph_.nodes[conv].attrs.as<Conv2dAttrs>();
    Unit unit{conv, conv, {attrs.stride, attrs.padding, attrs.dilation, attrs.groups}};
    if (attrs.activation == Activation::kRelu) {
      unit.attrs.tail = ConvTail::kClip;
      unit.attrs.low = 0;
    } else {
      take_activation(unit);
    }
    take_sum(unit);
    return unit;
  }

 private:
  ValueId result(const Unit& unit) const { return graph_.nodes[unit.last].outputs[0]; }

  // The only reader of the unit so far.
  std::optional<size_t> reader(const Unit& unit) const {
    const auto id = static_cast<size_t>(result(unit));
    if (uses_[id] != 1 || first_reader_[id] == graph_.nodes.size())
      return std::nullopt;  // an output of the graph
    return first_reader_[id];
  }

  void take_activation(Unit& unit) const {
    const std::optional<size_t> next = reader(unit);
    if (!next) return;
    const Node& node = graph_.nodes[*next];
    if (is_op(node, "clip")) {
      unit.attrs.low = node.attrs.as<ClipAttrs>().low;
      unit.attrs.high = node.attrs.as<ClipAttrs>().high;
    } else if (is_op(node, "relu")) {
      unit.attrs.low = 0;
    } else if (!is_op(node, "silu")) {
      return;
    }
    unit.attrs.tail = is_op(node, "silu") ? ConvTail::kSilu : ConvTail::kClip;
    unit.last = *next;
  }

  void take_sum(Unit& unit) const {
    const std::optional<size_t> next = reader(unit);
    if (!next || !is_op(graph_.nodes[*next], "add")) return;
    const std::vector<ValueId>& sides = graph_.nodes[*next].inputs;
    const ValueId id = result(unit), other = sides[0] == id ? sides[1] : sides[0];
    const Value &own = graph_.value(id), &added = graph_.value(other);
    if (added.shape != own.shape || added.batch_axes != own.batch_axes || added.dtype != own.dtype) return;
    unit.residual = other;
    unit.last = *next;
  }

  const Graph& graph_;
  std::vector<int> uses_;
  std::vector<size_t> first_reader_;  // by value; making units doesn't change it
};

// Leaves nodes without readers for remove_dead_nodes.
int fuse_units(Graph& graph) {
  const bool has_depthwise = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return can_be_unit(graph, node) && is_depthwise_convolution(graph, node);
  });
  if (!has_depthwise) return 0;
  int fused = 0;
  const UnitMaker maker(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!can_be_unit(graph, graph.nodes[i])) continue;
    const Unit unit = maker.unit_of(i);
    std::vector<ValueId> inputs = graph.nodes[i].inputs;
    inputs.resize(unit.residual == kNone ? inputs.size() : 3, kNone);
    if (unit.residual != kNone) inputs.push_back(unit.residual);
    Node& node = graph.nodes[unit.last];  // where all its inputs exist
    node.op = &row_of("conv_unit");
    node.attrs = unit.attrs;
    node.inputs = std::move(inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_conv_units = {
    "fuse_conv_units",
    "in networks with depthwise convolutions, a convolution and the ops after it run in one pass", false,
    fuse_units};

// A 1x1 conv_unit and the depthwise one that is its only reader become a conv_pair. The value between them, which is the widest
// in such networks, then stays in a core's cache.

namespace {

bool is_unit(const Node& node) {
  return is_op(node, "conv_unit") && input_or_none(node, 3) == kNone;
}

bool is_pointwise(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  const auto& attrs = node.attrs.as<ConvUnitAttrs>();
  return weight[2] == 1 && weight[3] == 1 && attrs.groups == 1 && attrs.stride == std::array{1, 1} &&
         attrs.padding == std::array{0, 0};
}

bool is_depthwise_unit(const Graph& graph, const Node& node) {
  const Shape& weight = graph.value(node.inputs[1]).shape;
  return weight[1] == 1 && weight[0] == node.attrs.as<ConvUnitAttrs>().groups;
}

// Leaves nodes without readers for remove_dead_nodes.
int fuse_pairs(Graph& graph) {
  int fused = 0;
  const std::vector<int> uses = graph.uses(), producers = graph.producers();
  for (Node& outer : graph.nodes) {
    if (!is_unit(outer) || !is_depthwise_unit(graph, outer)) continue;
    const auto between = static_cast<size_t>(outer.inputs[0]);
    if (uses[between] != 1 || producers[between] < 0) continue;
    const Node& inner = graph.nodes[static_cast<size_t>(producers[between])];
    if (!is_unit(inner) || !is_pointwise(graph, inner)) continue;
    const auto& first = inner.attrs.as<ConvUnitAttrs>();
    const auto second = outer.attrs.as<ConvUnitAttrs>();
    std::vector<ValueId> inputs = {inner.inputs[0], inner.inputs[1], outer.inputs[1], input_or_none(inner, 2),
                                   input_or_none(outer, 2)};
    outer.op = &row_of("conv_pair");
    outer.attrs = ConvPairAttrs{first.tail,      first.low,   first.high, second.stride, second.padding,
                                second.dilation, second.tail, second.low, second.high};
    outer.inputs = std::move(inputs);
    ++fused;
  }
  return fused;
}

}  // namespace

const Pass fuse_conv_pairs = {
    "fuse_conv_pairs", "a 1x1 convolution and the depthwise one after it run in one pass", false, fuse_pairs};

}  // namespace dlpipe::engine::graph
