#include "dlpipe/graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"

namespace dlpipe::engine::graph {

namespace {

Shape scaled(Shape shape, uint32_t axes, int64_t batch) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes & bit(axis)) shape[axis] *= batch;
  }
  return shape;
}

[[noreturn]] void corrupt(const Graph& graph, const auto&... parts) {
  throw Error(Status(ErrorCode::kCorrupt, concat("[graph] ", graph.name.empty() ? "it" : graph.name, " ",
                                                 parts..., "; compile the model again")));
}

// "node 7 (conv2d)"
std::string node_text(const Graph& graph, size_t index) {
  return concat("node ", index, " (", graph.nodes[index].op->record->name, ")");
}

void check_ids(const Graph& graph) {
  const auto in_range = [&](ValueId id) { return id >= 0 && static_cast<size_t>(id) < graph.values.size(); };
  std::vector<bool> made(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) made[i] = graph.values[i].is_constant();
  for (const ValueId id : graph.inputs) {
    if (!in_range(id) || made[static_cast<size_t>(id)])
      corrupt(graph, "has an input that is a constant or another input's value");
    made[static_cast<size_t>(id)] = true;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId id : node.inputs) {
      if (id == kNone) continue;
      if (!in_range(id) || !made[static_cast<size_t>(id)])
        corrupt(graph, "has a ", node_text(graph, i), " that reads a value before it is computed");
    }
    if (node.outputs.size() != static_cast<size_t>(node.op->record->visible_outputs))
      corrupt(graph, "has a ", node_text(graph, i), " with ", node.outputs.size(), " outputs");
    for (const ValueId id : node.outputs) {
      if (!in_range(id) || made[static_cast<size_t>(id)])
        corrupt(graph, "has a ", node_text(graph, i), " that computes a value that already exists");
      made[static_cast<size_t>(id)] = true;
    }
  }
  if (graph.outputs.empty()) corrupt(graph, "has no output");
  for (const ValueId id : graph.outputs) {
    if (!in_range(id) || !made[static_cast<size_t>(id)])
      corrupt(graph, "has an output that no node computes");
  }
}

// The outputs of node `index` by its record's shape rule, for a batch of `batch`.
std::vector<TensorSpec> inferred(const Graph& graph, size_t index, int64_t batch) {
  const Node& node = graph.nodes[index];
  std::vector<TensorSpec> inputs;
  std::vector<uint8_t> defined;
  for (const ValueId id : node.inputs) {
    defined.push_back(id != kNone);
    inputs.push_back(id == kNone ? TensorSpec{}
                                 : TensorSpec{graph.value(id).shape_at(batch), graph.value(id).dtype});
  }
  std::array<bool, OpRecord::kMostInputs> flags{};
  const OpRecord::InputCount count = node.op->record->input_count;
  const bool enough = std::none_of(node.inputs.begin(),
                                   node.inputs.begin() + std::min<size_t>(node.inputs.size(), count.least),
                                   [](ValueId id) { return id == kNone; });
  if (node.inputs.size() < count.least || node.inputs.size() > count.most || !enough)
    corrupt(graph, "has a ", node_text(graph, index), " with ", node.inputs.size(), " inputs; it takes ",
            int{count.least}, " to ", int{count.most});
  std::copy(defined.begin(), defined.end(), flags.begin());
  Attrs attrs = node.attrs_at(batch);
  if (attrs.is<
          BatchNormAttrs>()) {  // training refuses a batch with one value per channel; shapes are the same in inference
    BatchNormAttrs norm = attrs.as<BatchNormAttrs>();
    norm.training = false;
    attrs = norm;
  }
  return node.op->record->infer(inputs, std::span<const bool>(flags.data(), inputs.size()), attrs);
}

void check_shapes(const Graph& graph, size_t index, int64_t batch) {
  const Node& node = graph.nodes[index];
  const std::vector<TensorSpec> outputs = inferred(graph, index, batch);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.value(node.outputs[i]);
    if (outputs[i].shape == value.shape_at(batch) && outputs[i].dtype == value.dtype) continue;
    corrupt(graph, "declares that ", node_text(graph, index), " returns ", value.type_text(),
            ", but the op's shape rule returns ", dtype_name(outputs[i].dtype), " ",
            outputs[i].shape.to_string(), " for a batch of ", batch);
  }
}

}  // namespace

Shape Value::shape_at(int64_t batch) const {
  return scaled(shape, batch_axes, batch);
}

std::string Value::type_text() const {
  std::string text = concat(dtype_name(dtype), " [");
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ',';
    const bool grows = (batch_axes & bit(axis)) != 0;
    text += !grows ? std::to_string(shape[axis]) : shape[axis] == 1 ? "N" : concat(shape[axis], "*N");
  }
  return text + "]";
}

Attrs Node::attrs_at(int64_t batch) const {
  if (batch_sizes == 0 || batch == 1) return attrs;
  std::vector<NamedAttr> list = list_attrs(*op->record, attrs);
  for (NamedAttr& attr : list) {
    if (attr.name != "shape") continue;
    auto& sizes = std::get<std::vector<int64_t>>(attr.value);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (batch_sizes & bit(static_cast<int>(i))) sizes[i] *= batch;
    }
  }
  return make_attrs(*op->record, list);
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string constant_name, const Tensor& tensor) {
  return add_value({std::move(constant_name), tensor.shape(), 0, tensor.dtype(), tensor});
}

std::vector<int> Graph::uses() const {
  std::vector<int> counts(values.size(), 0);
  for (const Node& node : nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) ++counts[static_cast<size_t>(id)];
    }
  }
  for (const ValueId id : outputs) ++counts[static_cast<size_t>(id)];
  return counts;
}

std::vector<int> Graph::producers() const {
  std::vector<int> made_by(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const ValueId id : nodes[i].outputs) made_by[static_cast<size_t>(id)] = static_cast<int>(i);
  }
  return made_by;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

void Graph::drop_unused_values() {
  std::vector<bool> keep(values.size(), false);
  for (const Node& node : nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) keep[static_cast<size_t>(id)] = true;
    }
    for (const ValueId id : node.outputs) keep[static_cast<size_t>(id)] = true;
  }
  for (const ValueId id : inputs) keep[static_cast<size_t>(id)] = true;
  for (const ValueId id : outputs) keep[static_cast<size_t>(id)] = true;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_constant() && values[i].trained == false) keep[i] = true;
  }
  std::vector<ValueId> renamed(values.size(), kNone);
  std::vector<Value> kept;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!keep[i]) continue;
    renamed[i] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(values[i]));
  }
  values = std::move(kept);
  const auto rename = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNone) id = renamed[static_cast<size_t>(id)];
    }
  };
  for (Node& node : nodes) rename(node.inputs), rename(node.outputs);
  rename(inputs), rename(outputs);
}

void infer_shapes(Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<TensorSpec> outputs = inferred(graph, i, 1);
    for (size_t k = 0; k < graph.nodes[i].outputs.size(); ++k) {
      Value& value = graph.value(graph.nodes[i].outputs[k]);
      value.shape = outputs[k].shape;
      value.dtype = outputs[k].dtype;
    }
  }
}

void check(const Graph& graph) {
  check_ids(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int64_t batch : {1, 2}) check_shapes(graph, i, batch);
  }
}

uint64_t bytes_of(const Value& value) {
  // Computed in floating point, so that impossible sizes don't overflow.
  double bytes = static_cast<double>(dtype_size(value.dtype));
  for (const int64_t size : value.shape) bytes *= static_cast<double>(size);
  constexpr double kMost = static_cast<double>(uint64_t{1} << 60);
  return static_cast<uint64_t>(std::clamp(bytes, 0.0, kMost));
}

uint64_t peak_bytes(const Graph& graph) {
  constexpr size_t kAlways = SIZE_MAX;
  std::vector<size_t> last_reader(graph.values.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs) last_reader[static_cast<size_t>(id)] = i;
    for (const ValueId id : graph.nodes[i].inputs) {
      if (id != kNone) last_reader[static_cast<size_t>(id)] = i;
    }
  }
  for (const ValueId id : graph.outputs) last_reader[static_cast<size_t>(id)] = kAlways;
  double now = 0, peak = 0;
  for (const ValueId id : graph.inputs) now += static_cast<double>(bytes_of(graph.value(id)));
  for (const ValueId id : graph.inputs)
    last_reader[static_cast<size_t>(id)] = kAlways;  // owned by the caller
  peak = now;
  std::vector<bool> gone(graph.values.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId id : node.outputs) now += static_cast<double>(bytes_of(graph.value(id)));
    peak = std::max(peak, now);
    const auto drop = [&](ValueId id) {
      if (id == kNone || graph.value(id).is_constant() || last_reader[static_cast<size_t>(id)] != i) return;
      if (gone[static_cast<size_t>(id)]) return;  // read twice
      gone[static_cast<size_t>(id)] = true;
      now -= static_cast<double>(bytes_of(graph.value(id)));
    };
    for (const ValueId id : node.outputs) drop(id);
    for (const ValueId id : node.inputs) drop(id);
  }
  return static_cast<uint64_t>(std::min(peak, static_cast<double>(uint64_t{1} << 62)));
}

uint64_t constant_bytes(const Graph& graph) {
  std::set<const void*> known;
  uint64_t bytes = 0;
  for (const Value& value : graph.values) {
    if (value.is_constant() && known.insert(value.constant.raw()).second)
      bytes += value.constant.size_bytes();
  }
  return bytes;
}

uint64_t most_peak_bytes(uint64_t constant_bytes) {
  constexpr uint64_t kPlain = uint64_t{4} << 30, kTimes = 64;
  return kPlain + kTimes * constant_bytes;
}

void check_memory(const Graph& graph, const std::string& file) {
  const uint64_t most = most_peak_bytes(constant_bytes(graph));
  const uint64_t peak = peak_bytes(graph);
  if (peak <= most) return;
  throw Error(Status(
      ErrorCode::kUnsupported,
      concat("[graph] ", file, " needs ", human_bytes(peak), " for one sample, more than the ",
             human_bytes(most),
             " allowed for a model with its weights (4 GiB plus 64 times their size); use smaller inputs")));
}

namespace {

std::string operand(const Graph& graph, ValueId id) {
  if (id == kNone) return "-";
  const Value& value = graph.value(id);
  return concat(value.is_constant() ? "%" : "", short_name(value.name));
}

std::string attrs_of(const Node& node) {
  std::vector<NamedAttr> list = list_attrs(*node.op->record, node.attrs);
  std::string text;
  for (const NamedAttr& attr : list) {
    if (attr.name == "shape" && node.batch_sizes != 0) {
      Value shown;
      shown.shape = Shape(std::span<const int64_t>(std::get<std::vector<int64_t>>(attr.value)));
      shown.batch_axes = node.batch_sizes;
      const std::string type = shown.type_text();
      text += concat(" shape=", type.substr(type.find('[')));
      continue;
    }
    text += concat(" ", attrs_text({&attr, 1}));
  }
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = concat(short_name(graph.name), "(");
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    text += concat(i > 0 ? ", " : "", short_name(value.name), ": ", value.type_text());
  }
  text += ")\n";
  for (const Node& node : graph.nodes) {
    std::string left;
    std::string types;
    for (const ValueId id : node.outputs) {
      left += concat(left.empty() ? "" : ", ", short_name(graph.value(id).name));
      types += concat(types.empty() ? "" : ", ", graph.value(id).type_text());
    }
    std::string right;
    for (const ValueId id : node.inputs) right += concat(right.empty() ? "" : ", ", operand(graph, id));
    text += concat("  ", left, " = ", node.op->record->name, "(", right, ")", attrs_of(node), "  : ", types,
                   "\n");
  }
  text += "->";
  for (const ValueId id : graph.outputs) text += concat(" ", operand(graph, id));
  return text + "\n";
}

std::string to_dot(const Graph& graph) {
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + "\"";
  };
  std::string text = concat("digraph ", quoted(short_name(graph.name)), " {\n  node [shape=box];\n");
  std::vector<std::string> maker(graph.values.size());
  for (const ValueId id : graph.inputs) {
    maker[static_cast<size_t>(id)] = concat("v", id);
    text +=
        concat("  v", id, " [shape=ellipse, label=",
               quoted(concat(short_name(graph.value(id).name), " ", graph.value(id).type_text())), "];\n");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::string label =
        concat(short_name(graph.value(node.outputs[0]).name), ": ", node.op->record->name, attrs_of(node));
    for (const ValueId id : node.inputs) {
      if (id != kNone && graph.value(id).is_constant()) label += concat(" ", operand(graph, id));
    }
    text += concat("  n", i, " [label=", quoted(label), "];\n");
    for (const ValueId id : node.inputs) {
      if (id == kNone || graph.value(id).is_constant()) continue;
      text += concat("  ", maker[static_cast<size_t>(id)], " -> n", i,
                     " [label=", quoted(graph.value(id).type_text()), "];\n");
    }
    for (const ValueId id : node.outputs) maker[static_cast<size_t>(id)] = concat("n", i);
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId id = graph.outputs[i];
    text +=
        concat("  out", i, " [shape=ellipse, label=",
               quoted(concat(short_name(graph.value(id).name), " ", graph.value(id).type_text())), "];\n");
    if (!graph.value(id).is_constant())
      text += concat("  ", maker[static_cast<size_t>(id)], " -> out", i, ";\n");
  }
  return text + "}\n";
}

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  return names;
}

void name_outputs(Graph& graph, std::span<const std::string> names) {
  std::vector<bool> is_named(graph.values.size(), false);
  std::set<std::string> given;
  const auto name = [&](ValueId id, const std::string& own) {
    if (is_named[static_cast<size_t>(id)] || !given.insert(own).second) return;
    graph.value(id).name = own;
    is_named[static_cast<size_t>(id)] = true;
  };
  for (const ValueId id : graph.inputs) name(id, graph.value(id).name);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!graph.value(graph.outputs[i]).is_constant()) name(graph.outputs[i], names[i]);
  }
  std::set<std::string> taken;
  std::map<std::string, int> next;  // counter of values with the same name
  for (const Value& value : graph.values) taken.insert(value.name);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    std::string& own = graph.values[i].name;
    if (is_named[i] || !given.contains(own)) continue;
    const std::string base = own;
    for (int& number = next.try_emplace(base, 2).first->second; !taken.insert(own).second; ++number)
      own = concat(base, "_", number);
  }
}

}  // namespace dlpipe::engine::graph
