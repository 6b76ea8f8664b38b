#include "engine/graph/capture.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/attr_form.h"
#include "engine/core/observers.h"
#include "engine/core/tensor_impl.h"

namespace dlpipe::engine::graph {

namespace {

template <class... Parts>
[[noreturn]] void refuse_capture(const Parts&... parts) {
  throw Error(Status(ErrorCode::kUnsupported, concat("[graph] ", parts...)));
}

// Records the ops that one run of the function calls, in order.
class Recorder final : public CallObserver {
 public:
  Recorder(std::span<const std::pair<std::string, Tensor>> weights, int64_t batch,
           const CaptureLimits& limits)
      : batch_(batch), limits_(limits) {
    for (const auto& [name, tensor] : weights) {
      names_.emplace(tensor.impl(), name);
      taken_.insert(name);
    }
  }

  Graph graph;

  void check_size(const TensorSpec& spec, bool varies, const std::string& what) {
    // Computed in floating point, so that impossible sizes don't overflow.
    double bytes = static_cast<double>(dtype_size(spec.dtype));
    for (const int64_t size : spec.shape) bytes *= static_cast<double>(size);
    if (!varies) bytes = constant_bytes_ += bytes;
    const uint64_t most = varies ? limits_.value_bytes : limits_.constant_bytes;
    if (bytes <= static_cast<double>(most) * static_cast<double>(varies ? batch_ : 1)) return;
    refuse_capture(graph.name, ": ", what, " is ", dtype_name(spec.dtype), " ", spec.shape.to_string(),
                   "; the limit is ", human_bytes(most),
                   varies ? " per value and sample" : " for all values that don't depend on the input");
  }

  ValueId add_input(const std::string& name, const Tensor& tensor) {
    const ValueId id = graph.add_value({name, tensor.shape(), 0, tensor.dtype()});
    graph.inputs.push_back(id);
    varying_.insert(id);
    remember(tensor, id);
    taken_.insert(name);
    return id;
  }

  void add_outputs(std::span<const Tensor> outputs) {
    for (const Tensor& output : outputs) graph.outputs.push_back(id_of(output));
  }

  bool wants_values(const OpRow& row, std::span<const Tensor> inputs,
                    std::span<const TensorSpec> outputs) override {
    if (&row == &reorder_row()) return true;  // it runs, because `outputs` don't have its result's layout
    const bool varies = std::ranges::any_of(inputs, [&](const Tensor& input) { return this->varies(input); });
    for (const TensorSpec& spec : outputs)
      check_size(spec, varies, concat("the output of ", row.record->name));
    return !varies;
  }

  void on_call(const OpRow& row, std::span<const Tensor> inputs, const Attrs& attrs,
               std::span<const Tensor> outputs) override {
    const OpRecord& record = *row.record;
    const bool varies = std::ranges::any_of(inputs, [&](const Tensor& input) { return this->varies(input); });
    if (&row == &reorder_row()) {  // the same value; a graph has no layouts
      remember(outputs[0], id_of(inputs[0]));
      return;
    }
    list_attrs(record, attrs);  // throws if they can't be stored
    Node node{&row, attrs, {}, {}, 0};
    for (const Tensor& input : inputs) node.inputs.push_back(input.defined() ? id_of(input) : kNone);
    const std::string base = base_name(node);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId id = graph.add_value({unused_name(outputs.size() == 1 ? base : concat(base, ".", i)),
                                          outputs[i].shape(), 0, outputs[i].dtype()});
      node.outputs.push_back(id);
      made_by_[id] = record.name;
      if (varies) varying_.insert(id);
      remember(outputs[i], id);
    }
    graph.nodes.push_back(std::move(node));
  }

  void on_read(const Tensor& tensor) override {
    const auto known = by_place_.find(place_of(tensor));
    if (known == by_place_.end() || graph.value(known->second).is_constant()) return;
    const auto maker = made_by_.find(known->second);
    refuse_capture("the program reads the values of '", graph.value(known->second).name, "' (",
                   maker == made_by_.end() ? "an input" : concat("the output of ", maker->second),
                   ") outside of its ops; the graph would use the same values for every input: compute with "
                   "ops instead");
  }

 private:
  // A tensor's address and format. Two handles of the same value have equal ones.
  using Place = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, DType, Layout>;

  static Place place_of(const Tensor& tensor) {
    const std::span<const int64_t> strides = tensor.strides();
    return {tensor.raw(),
            {tensor.shape().begin(), tensor.shape().end()},
            {strides.begin(), strides.end()},
            tensor.dtype(),
            tensor.layout()};
  }

  static const OpRow& reorder_row() {
    static const OpRow& row = *value_or_throw(OpRegistry::builtin().find("reorder"));
    return row;
  }

  // Whether the tensor depends on an input of the graph.
  bool varies(const Tensor& tensor) const {
    if (!tensor.defined()) return false;
    if (const auto known = by_impl_.find(tensor.impl()); known != by_impl_.end())
      return varying_.contains(known->second);
    if (tensor.elements() > 0) {
      if (const auto known = by_place_.find(place_of(tensor)); known != by_place_.end())
        return varying_.contains(known->second);
    }
    const auto owner = storages_.find(tensor.impl()->storage.get());
    return owner != storages_.end() && varying_.contains(owner->second);
  }

  void remember(const Tensor& tensor, ValueId id) {
    by_impl_[tensor.impl()] = id;
    if (tensor.elements() > 0) by_place_[place_of(tensor)] = id;
    if (!graph.value(id).is_constant()) storages_.emplace(tensor.impl()->storage.get(), id);
    kept_.push_back(tensor);  // keeps the memory alive, so that no other tensor gets its address
  }

  ValueId id_of(const Tensor& tensor) {
    if (const auto known = by_impl_.find(tensor.impl()); known != by_impl_.end()) return known->second;
    if (tensor.elements() > 0) {
      if (const auto known = by_place_.find(place_of(tensor)); known != by_place_.end()) return known->second;
    }
    if (const auto owner = storages_.find(tensor.impl()->storage.get()); owner != storages_.end()) {
      refuse_capture("an op reads a view of '", graph.value(owner->second).name,
                     "' that no op made; create it with reshape, transpose or slice");
    }
    const auto named = names_.find(tensor.impl());
    const std::string name =
        named != names_.end() ? named->second : unused_name(concat("constant_", graph.values.size()));
    const UseCallObserver mine(nullptr);
    const Tensor plain_copy = tensor.is_contiguous() ? tensor.detach() : tensor.contiguous_copy();
    const ValueId id = graph.add_constant(name, plain_copy);
    remember(tensor, id);
    return id;
  }

  // The name of the module of its weights ("layer1.0.conv1" for "layer1.0.conv1.weight"), else of the op.
  std::string base_name(const Node& node) const {
    for (const ValueId id : node.inputs) {
      if (id == kNone || !graph.value(id).is_constant()) continue;
      const std::string& weight = graph.value(id).name;
      const size_t dot = weight.rfind('.');
      if (dot != std::string::npos && names_has(weight)) return weight.substr(0, dot);
    }
    return node.op->record->name;
  }
  bool names_has(const std::string& name) const { return !name.starts_with("constant_"); }

  std::string unused_name(const std::string& base) {
    if (taken_.insert(base).second) return base;
    int& next = next_number_.try_emplace(base, 2).first->second;
    for (;; ++next) {
      std::string name = concat(base, "_", next);
      if (taken_.insert(name).second) return name;
    }
  }

  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_map<const TensorImpl*, ValueId> by_impl_;
  std::map<Place, ValueId> by_place_;
  std::unordered_map<const Storage*, ValueId> storages_;  // of the inputs and of the results of ops
  std::map<ValueId, std::string> made_by_;
  std::unordered_set<ValueId> varying_;  // values that depend on inputs
  const int64_t batch_;
  const CaptureLimits limits_;
  double constant_bytes_ = 0;  // of values computed from constants only
  std::vector<Tensor> kept_;
  std::set<std::string> taken_;
  std::map<std::string, int> next_number_;
};

Graph run_once(const std::string& name, std::span<const CaptureInput> inputs,
               std::span<const std::pair<std::string, Tensor>> weights, const Function& function,
               int64_t batch, const CaptureLimits& limits) {
  Recorder recorder(weights, batch, limits);
  recorder.graph.name = name;
  std::vector<Tensor> tensors;
  for (const CaptureInput& input : inputs) {
    Value value;
    value.shape = input.sample.shape;
    value.batch_axes = input.batch_axes;
    recorder.check_size({value.shape_at(batch), input.sample.dtype}, true,
                        concat("the input '", input.name, "'"));
    tensors.push_back(Tensor::empty(value.shape_at(batch), input.sample.dtype));
    recorder.add_input(input.name, tensors.back());
  }
  const NoGrad no_grad;
  const UseAutocast as_written(DType::kF32);  // the program that runs a graph chooses its autocast dtype
  const UseCallObserver observing(&recorder);
  const std::vector<Tensor> outputs = function(tensors);
  recorder.add_outputs(outputs);
  return std::move(recorder.graph);
}

constexpr int64_t kFirstBatch = kCapturedBatches[0], kSecondBatch = kCapturedBatches[1];

// Finds the sizes that are a multiple of the batch by comparing the first and the second run.
uint32_t growing(std::span<const int64_t> first, std::span<const int64_t> second, const std::string& what) {
  uint32_t axes = 0;
  bool fits = first.size() == second.size();
  for (size_t i = 0; fits && i < first.size(); ++i) {
    if (first[i] == second[i]) continue;
    fits = first[i] % kFirstBatch == 0 && second[i] == first[i] / kFirstBatch * kSecondBatch;
    axes |= bit(static_cast<int>(i));
  }
  if (!fits) refuse_capture("the sizes of ", what, " must be fixed or a multiple of the batch size");
  return axes;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.raw() == b.raw() || !(a.shape() == b.shape())) return true;  // shapes are compared elsewhere
  return a.dtype() == b.dtype() && a.device().is_host() && std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0;
}

// Merges two runs: marks the batch's sizes in `one`.
void merge(Graph& one, const Graph& two) {
  bool same = one.nodes.size() == two.nodes.size() && one.values.size() == two.values.size() &&
              one.outputs == two.outputs;
  for (size_t i = 0; same && i < one.nodes.size(); ++i) {
    same = one.nodes[i].op == two.nodes[i].op && one.nodes[i].inputs == two.nodes[i].inputs &&
           one.nodes[i].outputs == two.nodes[i].outputs;
  }
  if (!same)
    refuse_capture(
        one.name,
        " calls different ops for batches of 2 and 3; a graph must have the same ops for all batches");
  for (size_t i = 0; i < one.values.size(); ++i) {
    Value& value = one.values[i];
    value.batch_axes = growing(value.shape.dims(), two.values[i].shape.dims(), concat("'", value.name, "'"));
    for (int axis = 0; axis < value.shape.rank(); ++axis) {
      if (value.batch_axes & bit(axis)) value.shape[axis] /= kFirstBatch;
    }
    if (value.is_constant() && !same_elements(value.constant, two.values[i].constant))
      refuse_capture("the constant '", value.name,
                     "' has different values for a batch of 3; compute it from the input with ops");
    if (value.is_constant() && value.batch_axes != 0)
      refuse_capture("the constant '", value.name,
                     "' grows with the batch; compute it from the input with ops");
  }
  for (size_t i = 0; i < one.nodes.size(); ++i) {
    Node& node = one.nodes[i];
    const std::vector<NamedAttr> first = list_attrs(*node.op->record, node.attrs);
    const std::vector<NamedAttr> second = list_attrs(*node.op->record, two.nodes[i].attrs);
    for (size_t k = 0; k < first.size(); ++k) {
      if (first[k] == second[k]) continue;
      if (first[k].name != "shape")
        refuse_capture("attribute '", first[k].name, "' of '", one.value(node.outputs[0]).name, "' (",
                       node.op->record->name,
                       ") depends on the batch; only the sizes of a reshape or an expand may");
      const auto& sizes = std::get<std::vector<int64_t>>(first[k].value);
      node.batch_sizes =
          growing(sizes, std::get<std::vector<int64_t>>(second[k].value),
                  concat("the ", node.op->record->name, " '", one.value(node.outputs[0]).name, "'"));
      std::vector<NamedAttr> of_one = first;
      auto& own = std::get<std::vector<int64_t>>(of_one[k].value);
      for (size_t axis = 0; axis < own.size(); ++axis) {
        if (node.batch_sizes & bit(static_cast<int>(axis))) own[axis] /= kFirstBatch;
      }
      node.attrs = make_attrs(*node.op->record, of_one);
    }
  }
}

}  // namespace

Graph capture(const std::string& name, std::span<const CaptureInput> inputs,
              std::span<const std::pair<std::string, Tensor>> weights, const Function& function,
              const CaptureLimits& limits) {
  Graph graph = run_once(name, inputs, weights, function, kFirstBatch, limits);
  merge(graph, run_once(name, inputs, weights, function, kSecondBatch, limits));
  graph.drop_unused_values();
  check(graph);
  return graph;
}

}  // namespace dlpipe::engine::graph
