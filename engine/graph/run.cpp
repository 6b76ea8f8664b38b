#include "engine/graph/run.h"
#include "dlpipe/graph.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/counters.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"
#include "engine/core/observers.h"
#include "engine/core/parallel.h"
#include "engine/graph/matching.h"
#include "engine/ops/dropout.h"

namespace dlpipe::engine::graph {

namespace {

// For a node's inputs and outputs: the part of a last-level cache of 32 MiB that weights and other programs leave. MobileNetV2
// needs 5.4 MiB per image; on one core of a Zen 4, an image took 7.8 ms in batches of two, 10.2 in fours and 18.8 in batches of
// 32.
constexpr int64_t kPartBytes = int64_t{12} << 20;
// For all concurrent parts. Two threads with two images of MobileNetV2 each have 21 MiB.
constexpr int64_t kPartsBytes = int64_t{24} << 20;

bool is_batch(const Value& value) {
  return value.batch_axes == bit(0);
}

// The inputs whose axis 0 may be the batch.
uint32_t batch_inputs(const Node& node) {
  const OpRecord& record = *node.op->record;
  return record.by_sample == nullptr || record.by_sample(node.attrs) ? record.batch_inputs : 0;
}

bool is_by_sample(const Graph& graph, const Node& node) {
  const uint32_t may_be_batch = batch_inputs(node);
  bool depends = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    const Value& value = graph.value(node.inputs[i]);
    if (value.batch_axes == 0) continue;
    depends = true;
    if (!is_batch(value) || (may_be_batch & bit(static_cast<int>(i))) == 0) return false;
  }
  // Values that don't depend on the inputs are computed again for each part. A result that does, but has no batch axis, would need
  // all samples.
  return !depends || std::all_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId id) { return is_batch(graph.value(id)); });
}

int64_t flowing_bytes(const Value& value) {
  return value.is_constant() ? 0 : static_cast<int64_t>(bytes_of(value));
}

}  // namespace

bool is_by_sample(const Graph& graph) {
  const auto has_batch = [&](ValueId id) { return is_batch(graph.value(id)); };
  return std::all_of(graph.inputs.begin(), graph.inputs.end(), has_batch) &&
         std::all_of(graph.outputs.begin(), graph.outputs.end(), has_batch) &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return is_by_sample(graph, node); });
}

BatchParts batch_parts(const Graph& graph) {
  const bool has_units = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return is_op(node, "conv_unit") || is_op(node, "conv_pair");
  });
  if (!has_units || !is_by_sample(graph)) return {};
  int64_t most = 1;
  for (const Node& node : graph.nodes) {
    int64_t bytes = 0;
    for (const ValueId id : node.inputs) bytes += id == kNone ? 0 : flowing_bytes(graph.value(id));
    for (const ValueId id : node.outputs) bytes += flowing_bytes(graph.value(id));
    most = std::max(most, bytes);
  }
  const int64_t samples = std::max<int64_t>(1, kPartBytes / most);
  return {samples, std::max<int64_t>(1, kPartsBytes / (samples * most))};
}

/// Whether this thread's ops are observed, so that ops on other threads would be missed.
static bool ops_are_watched() {
  return OpProfile::current() != nullptr || thread_state::kernel_observer() != nullptr ||
         thread_state::call_observer() != nullptr;
}

Runner::Runner(Graph graph)
    : graph_(std::move(graph)),
      parts_(batch_parts(graph_)),
      cache_(std::make_unique<ConstantCache>()),
      dead_after_(graph_.nodes.size()) {
  check(graph_);
  for (const Value& value : graph_.values) {
    if (value.is_constant()) cache_->add_constant(value.constant);
  }
  std::vector<bool> wanted(graph_.values.size(), false);
  for (const ValueId id : graph_.outputs) wanted[static_cast<size_t>(id)] = true;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const auto note = [&](ValueId id) {
      if (id == kNone || wanted[static_cast<size_t>(id)] || graph_.value(id).is_constant()) return;
      wanted[static_cast<size_t>(id)] = true;
      dead_after_[i].push_back(id);
    };
    for (const ValueId id : graph_.nodes[i].outputs) note(id);
    for (const ValueId id : graph_.nodes[i].inputs) note(id);
  }
}

Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;

size_t Runner::packed_bytes() const {
  return cache_->size_bytes();
}

int64_t Runner::batch_of(std::span<const Tensor> inputs) const {
  if (inputs.size() != graph_.inputs.size())
    refuse("graph", graph_.name, " takes ", graph_.inputs.size(), " inputs, got ", inputs.size());
  int64_t batch = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph_.value(graph_.inputs[i]);
    for (int axis = 0; axis < value.shape.rank() && axis < inputs[i].rank(); ++axis) {
      if ((value.batch_axes & bit(axis)) && value.shape[axis] > 0)
        batch = inputs[i].size(axis) / value.shape[axis];
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph_.value(graph_.inputs[i]);
    if (inputs[i].shape() == value.shape_at(batch) && inputs[i].dtype() == value.dtype && batch > 0) continue;
    refuse("graph", graph_.name, " takes ", value.type_text(), " as '", value.name, "', got ",
           dtype_name(inputs[i].dtype()), " ", inputs[i].shape().to_string(),
           "; N is the batch size, 1 or more");
  }
  return batch;
}

std::vector<Tensor> Runner::run(std::span<const Tensor> inputs) const {
  return run(inputs, nullptr);
}

std::vector<Tensor> Runner::run(std::span<const Tensor> inputs, const Observer& observer) const {
  const InferenceMode mode;
  const UseConstantCache packed_once(cache_.get());
  const bool in_parts = parts_.samples > 0 && !inputs.empty() && inputs[0].device().is_host() &&
                        batch_of(inputs) > parts_.samples;
  return in_parts ? run_by_parts(inputs, batch_of(inputs), observer) : run_nodes(inputs, observer);
}

/// Runs samples [first, last) and writes their results to `outputs`, which the first part allocates.
void Runner::run_part(std::span<const Tensor> inputs, int64_t batch, int64_t first, int64_t last,
                      const Observer& observer, std::vector<Tensor>* outputs) const {
  std::vector<Tensor> part;
  part.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t rows = graph_.value(graph_.inputs[i]).shape[0];  // of a sample
    part.push_back(slice(inputs[i], 0, first * rows, last * rows));
  }
  const std::vector<Tensor> answers = run_nodes(part, observer);
  for (size_t i = 0; i < answers.size(); ++i) {
    const Tensor answer = answers[i].is_contiguous() ? answers[i] : answers[i].contiguous_copy();
    Tensor& output = (*outputs)[i];
    const Shape shape = graph_.value(graph_.outputs[i]).shape_at(batch);
    if (!output.defined()) output = Tensor::empty(shape, answer.dtype());  // autocast may choose the dtype
    const size_t sample = output.size_bytes() / static_cast<size_t>(batch);
    std::memcpy(static_cast<std::byte*>(output.raw()) + static_cast<size_t>(first) * sample, answer.raw(),
                answer.size_bytes());
  }
}

std::vector<Tensor> Runner::run_by_parts(std::span<const Tensor> inputs, int64_t batch,
                                         const Observer& observer) const {
  std::vector<Tensor> outputs(graph_.outputs.size());
  int64_t done = 0;
  const int64_t part = parts_.samples, threads = engine_threads();
  if (threads > 1 && threads <= parts_.apart && batch >= part * (threads + 1) && !observer &&
      !ops_are_watched()) {
    // The first part allocates the outputs and fills the cache of packed weights. All threads work on each of its nodes.
    run_part(inputs, batch, 0, part, nullptr, &outputs);
    const int64_t parts = (batch - part) / part / threads * threads;
    run_parts_apart(inputs, batch, parts, &outputs);
    done = part * (1 + parts);
  }
  for (; done < batch; done += part)
    run_part(inputs, batch, done, std::min(batch, done + part), observer, &outputs);
  return outputs;
}

/// Runs `parts` parts after the first, each on one thread from its first node to its last.
void Runner::run_parts_apart(std::span<const Tensor> inputs, int64_t batch, int64_t parts,
                             std::vector<Tensor>* outputs) const {
  const DType low = autocast_dtype();
  const Backend backend = thread_state::backend();
  const FrozenCache frozen(*cache_);
  parallel_slices(parts, [&](int64_t i) {
    const InferenceMode mode;
    const UseConstantCache packed_once(cache_.get());
    const UseAutocast autocast(low);
    const UseBackend use(backend);
    run_part(inputs, batch, parts_.samples * (1 + i), parts_.samples * (2 + i), nullptr, outputs);
  });
}

std::vector<Tensor> Runner::forward(std::span<const Tensor> inputs) const {
  return run_nodes(inputs, nullptr);
}

std::vector<Tensor> Runner::run_nodes(std::span<const Tensor> inputs, const Observer& observer) const {
  const int64_t batch = batch_of(inputs);
  std::vector<Tensor> values(graph_.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = graph_.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(graph_.inputs[i])] = inputs[i];
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const int64_t begin = observer ? now_ns() : 0;
    std::vector<Tensor> arguments;
    arguments.reserve(node.inputs.size() + 1);
    for (const ValueId id : node.inputs)
      arguments.push_back(id == kNone ? Tensor() : values[static_cast<size_t>(id)]);
    Attrs attrs = node.attrs_at(batch);
    if (attrs.is<DropoutAttrs>())
      attrs = attrs.as<DropoutAttrs>().redrawn(arguments[0]);  // another mask in each run
    std::vector<Tensor> results = apply(*node.op, std::move(arguments), std::move(attrs));
    for (size_t k = 0; k < results.size(); ++k)
      values[static_cast<size_t>(node.outputs[k])] = std::move(results[k]);
    for (const ValueId id : dead_after_[i]) values[static_cast<size_t>(id)] = Tensor();
    if (observer) observer(i, now_ns() - begin);
  }
  std::vector<Tensor> outputs;
  for (const ValueId id : graph_.outputs) {
    Tensor output = values[static_cast<size_t>(id)];
    if (output.layout() != Layout::kPlain) output = reorder(output, Layout::kPlain);
    outputs.push_back(std::move(output));
  }
  return outputs;
}

namespace {

class Counter final : public KernelObserver {
 public:
  LayoutCopies now;

  void on_forward(const OpRecord& record, const Kernels&, const ForwardArgs& args) override {
    if (record.name != std::string_view("reorder")) return;
    ++now.reorders;
    now.bytes += static_cast<int64_t>(args.outputs[0].size_bytes());
  }
  void on_copy(const Tensor& to, const Tensor&) override {
    ++now.of_views;
    now.bytes += static_cast<int64_t>(to.size_bytes());
  }
};

}  // namespace

std::vector<LayoutCopies> layout_copies(const Runner& runner, std::span<const Tensor> inputs) {
  std::vector<LayoutCopies> copies(runner.graph().nodes.size() + 1);
  Counter counter;
  const UseKernelObserver use(&counter);
  runner.run(inputs, [&](size_t node, int64_t) { copies[node] += std::exchange(counter.now, {}); });
  copies.back() = counter.now;
  return copies;
}

}  // namespace dlpipe::engine::graph
