#include "engine/onnx/any_batch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"

namespace dlpipe::engine::onnx {

namespace {

constexpr int64_t kNone = 0;

// The batch size of all inputs, their first axis. kNone if they differ, already vary, or aren't floats.
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

// Samples [first, first + count) of each tensor.
std::vector<Tensor> rows(const std::vector<Tensor>& tensors, int64_t first, int64_t count) {
  std::vector<Tensor> parts;
  parts.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    parts.push_back(slice(tensor, 0, first, first + count).contiguous_copy());
  return parts;
}

// Whether tensors are equal up to the rounding of sums in another order. False for only zeros and for non-finite values, which
// prove nothing.
bool are_alike(const std::vector<Tensor>& some, const std::vector<Tensor>& others) {
  constexpr double kOfLargest = 1e-4;
  for (size_t i = 0; i < some.size(); ++i) {
    if (some[i].shape() != others[i].shape()) return false;
    const std::vector<double> a = some[i].to_doubles(), b = others[i].to_doubles();
    double largest = 0;
    for (const double one : a) largest = std::max(largest, std::abs(one));
    if (!(largest > 0) || !std::isfinite(largest)) return false;
    for (size_t k = 0; k < a.size(); ++k) {
      if (!(std::abs(a[k] - b[k]) <= kOfLargest * largest)) return false;
    }
  }
  return true;
}

}  // namespace

// Runs a batch of one more sample. Compares its results with the fixed batch, and with its first and last sample run alone.
bool answer_alike(const graph::Graph& fixed, const graph::Graph& any) {
  const int64_t batch = fixed_batch(fixed);
  const graph::Runner of_batch(fixed), of_any(any);
  std::vector<Tensor> more;
  for (size_t i = 0; i < fixed.inputs.size(); ++i) {
    Shape shape = fixed.value(fixed.inputs[i]).shape;
    shape[0] = batch + 1;
    more.push_back(drawn(shape, i));
  }
  const std::vector<Tensor> answers = of_any.run(more);
  if (!are_alike(of_batch.run(rows(more, 0, batch)), rows(answers, 0, batch))) return false;
  const std::vector<Tensor> first = rows(answers, 0, 1), last = rows(answers, batch, 1);
  return are_alike(of_any.run(rows(more, 0, 1)), first) && are_alike(of_any.run(rows(more, batch, 1)), last);
}

std::optional<graph::Graph> with_any_batch(const Model& model, const graph::Graph& fixed) {
  if (graph::is_training_form(fixed)) return std::nullopt;  // samples affect each other's results
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
    return grows ? std::optional(std::move(any)) : std::nullopt;
  } catch (const Error&) {  // its nodes contain sizes that don't fit another batch
    return std::nullopt;
  }
}

}  // namespace dlpipe::engine::onnx
