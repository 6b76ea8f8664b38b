#include "dlpipe/engine/graph/run.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/core/call_observer.h"
#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/core/inference_mode.h"
#include "dlpipe/engine/core/kernel_observer.h"
#include "dlpipe/engine/core/op_profile.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/graph/by_sample.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine::graph {

/// Whether somebody is told of the ops that this thread calls, and would miss those of others.
static bool ops_are_watched() {
  return OpProfile::current() != nullptr || thread_state::kernel_observer() != nullptr ||
         thread_state::call_observer() != nullptr;
}

Runner::Runner(Graph graph)
    : graph_(std::move(graph)), parts_(batch_parts(graph_)), dead_after_(graph_.nodes.size()) {
  check(graph_);
  for (const Value& value : graph_.values) {
    if (value.is_constant()) cache_.add_constant(value.constant);
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
           dtype_name(inputs[i].dtype()), " ", inputs[i].shape().to_string(), "; N is the batch, 1 or more");
  }
  return batch;
}

std::vector<Tensor> Runner::run(std::span<const Tensor> inputs) const {
  return run(inputs, nullptr);
}

std::vector<Tensor> Runner::run(std::span<const Tensor> inputs, const Observer& observer) const {
  const InferenceMode mode;
  const UseConstantCache packed_once(&cache_);
  const bool in_parts = parts_.samples > 0 && !inputs.empty() && inputs[0].device().is_host() &&
                        batch_of(inputs) > parts_.samples;
  return in_parts ? run_by_parts(inputs, batch_of(inputs), observer) : run_nodes(inputs, observer);
}

/// Samples [first, last): their answers go to `outputs`, which the first part makes.
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
    if (!output.defined()) output = Tensor::empty(shape, answer.dtype());  // autocast may say which
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
    // The first part makes the outputs and what kernels keep of the weights, all threads at each node.
    run_part(inputs, batch, 0, part, nullptr, &outputs);
    const int64_t parts = (batch - part) / part / threads * threads;
    run_parts_apart(inputs, batch, parts, &outputs);
    done = part * (1 + parts);
  }
  for (; done < batch; done += part)
    run_part(inputs, batch, done, std::min(batch, done + part), observer, &outputs);
  return outputs;
}

/// `parts` parts behind the first, each by one thread from its first node to its last.
void Runner::run_parts_apart(std::span<const Tensor> inputs, int64_t batch, int64_t parts,
                             std::vector<Tensor>* outputs) const {
  const DType low = autocast_dtype();
  const Backend backend = thread_state::backend();
  const FrozenCache frozen(cache_);
  parallel_slices(parts, [&](int64_t i) {
    const InferenceMode mode;
    const UseConstantCache packed_once(&cache_);
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
    std::vector<Tensor> results = apply(*node.op, std::move(arguments), node.attrs_at(batch));
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

}  // namespace dlpipe::engine::graph
