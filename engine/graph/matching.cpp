#include "engine/graph/matching.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine::graph {

bool is_op(const Node& node, std::string_view name) {
  return node.op->record->name == name;
}

const OpRow& row_of(std::string_view name) {
  for (const OpRow& row : op_table()) {
    if (row.record->name == name) return row;
  }
  throw Error(Status(ErrorCode::kInternal, concat("[graph] there is no op '", name, "'")));
}

AttrValue attribute(const Node& node, std::string_view name) {
  for (const NamedAttr& attr : list_attrs(*node.op->record, node.attrs)) {
    if (attr.name == name) return attr.value;
  }
  throw Error(Status(ErrorCode::kInternal,
                     concat("[graph] ", node.op->record->name, " has no attribute '", name, "'")));
}

void set_attribute(Node& node, std::string_view name, AttrValue value) {
  std::vector<NamedAttr> list = list_attrs(*node.op->record, node.attrs);
  for (NamedAttr& attr : list) {
    if (attr.name != name) continue;
    attr.value = std::move(value);
    break;
  }
  node.attrs = make_attrs(*node.op->record, list);
}

ValueId input_or_none(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNone;
}

void become(Node& node, std::string_view op, std::vector<ValueId> inputs) {
  node.op = &row_of(op);
  node.attrs = NoAttrs{};
  node.inputs = std::move(inputs);
}

std::optional<OperandAndNumber> operand_and_number(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const ValueId operand = node.inputs[side], other = node.inputs[1 - side];
    if (operand == kNone || other == kNone) continue;
    const Value& constant = graph.value(other);
    if (!constant.is_constant() || constant.shape.elements() != 1) continue;
    if (graph.value(node.outputs[0]).shape != graph.value(operand).shape) continue;
    return OperandAndNumber{operand, constant.constant.to_doubles()[0], side == 0};
  }
  return std::nullopt;
}

const Node* Makers::maker(ValueId id) const {
  const int index = id == kNone ? -1 : producers_[static_cast<size_t>(id)];
  return index < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(index)];
}

const Node* Makers::maker_for_us(ValueId id, std::string_view op) const {
  const Node* const node = maker(id);
  return node != nullptr && is_op(*node, op) && uses_[static_cast<size_t>(id)] == 1 ? node : nullptr;
}

Walk::Walk(Graph& graph)
    : graph_(graph),
      uses_(graph.uses()),
      producers_(graph.producers()),
      now_(graph.values.size()),
      is_gone_(graph.nodes.size(), false) {
  std::iota(now_.begin(), now_.end(), 0);
}

Node& Walk::node(size_t i) {
  Node& node = graph_.nodes[i];
  for (ValueId& id : node.inputs) id = now(id);
  return node;
}

void Walk::remove(size_t i, ValueId by) {
  const ValueId gone = graph_.nodes[i].outputs[0];
  now_[static_cast<size_t>(gone)] = by;
  uses_[static_cast<size_t>(by)] = uses_[static_cast<size_t>(gone)];
  is_gone_[i] = true;
}

void Walk::finish() {
  std::vector<Node> kept;
  kept.reserve(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!is_gone_[i]) kept.push_back(std::move(node(i)));
    const auto behind = behind_.find(i);
    if (behind == behind_.end()) continue;
    for (Node& more : behind->second) kept.push_back(std::move(more));
  }
  graph_.nodes = std::move(kept);
  for (ValueId& id : graph_.outputs) id = now(id);
}

std::string beside(std::string_view weight, std::string_view name) {
  const size_t dot = weight.rfind('.');
  return dot == std::string_view::npos ? concat(weight, ".", name) : concat(weight.substr(0, dot), ".", name);
}

namespace {

// Row o of [O, ...] times factor[o].
Tensor scaled_rows(const Tensor& weight, const std::vector<double>& factor) {
  Tensor scaled = weight.contiguous_copy();
  auto* const values = scaled.data<float>();
  const int64_t row = weight.elements() / std::max<int64_t>(1, weight.size(0));  // there may be no rows
  for (int64_t i = 0; i < weight.elements(); ++i)
    values[i] = static_cast<float>(values[i] * factor[static_cast<size_t>(i / row)]);
  return scaled;
}

Tensor changed_bias(const Graph& graph, const Node& product, const Affine& affine) {
  std::vector<float> bias;
  std::vector<double> old(affine.factor.size(), 0.0);
  if (const ValueId given = input_or_none(product, 2); given != kNone)
    old = graph.value(given).constant.to_doubles();
  for (size_t i = 0; i < old.size(); ++i)
    bias.push_back(static_cast<float>(old[i] * affine.factor[i] + affine.offset[i]));
  return Tensor::from<float>(bias, {static_cast<int64_t>(bias.size())});
}

bool has_no_activation(const Node& node) {
  return attribute(node, "activation") == AttrValue(std::string("none"));
}

}  // namespace

int product_behind(const Graph& graph, ValueId id, const Walk& walk) {
  const int index = walk.producer(id);
  if (index < 0 || walk.uses(id) != 1) return -1;
  const Node& product = graph.nodes[static_cast<size_t>(index)];
  if ((!is_op(product, "conv2d") && !is_op(product, "linear")) || !has_no_activation(product)) return -1;
  for (size_t i = 1; i < product.inputs.size(); ++i) {
    if (product.inputs[i] == kNone) continue;
    const Value& weight = graph.value(product.inputs[i]);
    if (!weight.is_constant() || weight.dtype != DType::kF32) return -1;
  }
  // Folding copies the weights, because other products may share them.
  if (bytes_of(graph.value(product.inputs[1])) > graph.constant_bytes_left) return -1;
  return index;
}

void put_into_weights(Graph& graph, size_t product, const Affine& affine) {
  const Value weight = graph.value(graph.nodes[product].inputs[1]);
  graph.constant_bytes_left -= bytes_of(weight);
  const ValueId scaled = graph.add_constant(weight.name, scaled_rows(weight.constant, affine.factor));
  const ValueId bias =
      graph.add_constant(beside(weight.name, "bias"), changed_bias(graph, graph.nodes[product], affine));
  Node& node = graph.nodes[product];
  node.inputs.resize(3);
  node.inputs[1] = scaled;
  node.inputs[2] = bias;
}

Tensor counted(const Shape& shape) {
  std::vector<double> numbers(static_cast<size_t>(shape.elements()));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return Tensor::from<double>(numbers, shape);
}

Tensor through_views(const Graph& graph, const std::vector<int>& producers, ValueId source, ValueId id,
                     const Tensor& numbers, int64_t batch) {
  const NoGrad no_grad;
  std::vector<const Node*> views;  // in reverse order
  for (ValueId at = id; at != source; at = views.back()->inputs[0])
    views.push_back(&graph.nodes[static_cast<size_t>(producers[static_cast<size_t>(at)])]);
  Tensor moved = numbers;
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    moved = apply(*(*view)->op, {moved}, (*view)->attrs_at(batch))[0];
  return moved;
}

}  // namespace dlpipe::engine::graph
