// Attention that an exporter wrote out becomes self_attention, which makes no matrix of all pairs:
//
//   matmul(softmax(matmul(q * a, k * b)), v)      a * b = 1 / sqrt(D)
//
// Exporters cut q, k and v out of one product [B,T,3*H*D] (or [T,B,..]) by reshapes, transposes and slices in many ways.
// Which element each of them reads is what counts: the cuts are run on a tensor of element numbers, for a batch of two.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/graph/matching.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/graph/passes/views.h"
#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/matmul.h"
#include "dlpipe/engine/ops/reshape.h"
#include "dlpipe/engine/ops/transpose.h"

namespace dlpipe::engine::graph {

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

  // x of x * constant, whose value joins `factor`; else the value itself.
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

  // Whether `id` is part 0, 1 or 2 (queries, keys, values) of the source as [B,H,T,D], or [B,H,D,T].
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

// The nodes that answer what the last matmul did.
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

// Nodes that lose their reader stay, for remove_dead_nodes.
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

const Pass fuse_attention = {"fuse_attention", "attention that is written out becomes self_attention", false,
                             fuse_attentions};

}  // namespace dlpipe::engine::graph
