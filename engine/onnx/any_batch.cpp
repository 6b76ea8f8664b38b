#include "dlpipe/engine/onnx/any_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/graph/run.h"

namespace dlpipe::engine::onnx {

namespace {

constexpr int64_t kNone = 0;

// The one batch that all inputs have as their first axis.
int64_t fixed_batch(const graph::Graph& graph) {
  int64_t batch = kNone;
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& value = graph.value(id);
    if (value.dtype != DType::kF32 || value.batch_axes != 0 || value.shape.rank() < 2 ||
        value.shape.elements() == 0)
      return kNone;
    if (batch != kNone && batch != value.shape[0]) return kNone;
    batch = value.shape[0];
  }
  return batch;
}

bool grows_by_samples(const graph::Value& value) {
  return value.dtype == DType::kF32 && value.batch_axes == bit(0) && value.shape.rank() > 0 &&
         value.shape[0] == 1;
}

Tensor drawn(const Shape& shape, uint64_t stream) {
  Tensor tensor = Tensor::empty(shape);
  RandomStream rng(0x6f6e6e78, stream);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = 2 * rng.uniform() - 1;
  return tensor;
}

// Rows [first, first + count) of its first axis.
Tensor rows(const Tensor& tensor, int64_t first, int64_t count) {
  Shape shape = tensor.shape();
  const int64_t row = tensor.elements() / shape[0];
  shape[0] = count;
  Tensor part = Tensor::empty(shape);
  std::memcpy(part.raw(), tensor.contiguous_copy().data<float>() + first * row, part.size_bytes());
  return part;
}

std::vector<Tensor> rows(const std::vector<Tensor>& tensors, int64_t first, int64_t count) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(rows(tensor, first, count));
  return parts;
}

// To the rounding of sums in another order.
bool are_alike(const std::vector<Tensor>& some, const std::vector<Tensor>& others) {
  constexpr double kOfLargest = 1e-4;
  for (size_t i = 0; i < some.size(); ++i) {
    if (some[i].shape() != others[i].shape()) return false;
    const std::vector<double> a = some[i].to_doubles(), b = others[i].to_doubles();
    double largest = 0, difference = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      largest = std::max(largest, std::abs(a[k]));
      difference = std::max(difference, std::abs(a[k] - b[k]));
    }
    if (!(difference <= kOfLargest * largest)) return false;
  }
  return true;
}

// Two batches of the given graph, as one batch of the other, and one sample of them alone.
bool answers_alike(const graph::Graph& fixed, const graph::Graph& any, int64_t batch) {
  const graph::Runner of_one(fixed), of_any(any);
  std::vector<Tensor> both;
  for (size_t i = 0; i < fixed.inputs.size(); ++i) {
    Shape shape = fixed.value(fixed.inputs[i]).shape;
    shape[0] = 2 * batch;
    both.push_back(drawn(shape, i));
  }
  const std::vector<Tensor> answers = of_any.run(both);
  for (const int64_t first : {int64_t{0}, batch}) {
    if (!are_alike(of_one.run(rows(both, first, batch)), rows(answers, first, batch))) return false;
  }
  return are_alike(of_any.run(rows(both, 0, 1)), rows(answers, 0, 1));
}

}  // namespace

std::optional<graph::Graph> with_any_batch(const Model& model, const graph::Graph& fixed) {
  const int64_t batch = fixed_batch(fixed);
  if (batch == kNone) return std::nullopt;
  ImportOptions options;
  for (const graph::ValueId id : fixed.inputs) {
    const graph::Value& value = fixed.value(id);
    options.shapes[value.name].assign(value.shape.begin(), value.shape.end());
    options.shapes[value.name][0] = kAnyBatch;
  }
  try {
    graph::Graph any = import_model(model, options);
    const bool grows = std::all_of(any.outputs.begin(), any.outputs.end(),
                                   [&](graph::ValueId id) { return grows_by_samples(any.value(id)); });
    return grows && answers_alike(fixed, any, batch) ? std::optional(std::move(any)) : std::nullopt;
  } catch (const Error&) {  // sizes that stand in its nodes don't fit another batch
    return std::nullopt;
  }
}

}  // namespace dlpipe::engine::onnx
