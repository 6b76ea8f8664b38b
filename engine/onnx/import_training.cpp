// Imports what only models in training form have: dropout, and nodes of dlpipe.capture that ONNX has no op for.
#include <array>
#include <vector>

#include "engine/graph/matching.h"
#include "engine/onnx/import_run.h"
#include "engine/ops/dropout.h"

namespace dlpipe::engine::onnx {

// Sets no key, so that both runs of a capture call the same op. A graph draws new numbers in each run.
Tensor live_dropout(const Tensor& x, double ratio) {
  if (ratio == 0) return x;
  return apply(graph::row_of("dropout"), {x}, DropoutAttrs{.p = ratio})[0];
}

namespace {

// Huang et al., "Deep networks with stochastic depth", 2016, or dropout2d if the mask has channels. The attribute `sizes` has the
// sizes of the mask; 0 means the batch.
void drop_path(Run& run, const NodeEntry& node) {
  if (!run.options().training)
    run.refuse(node, "it is in training mode; capture the model with dlpipe.capture");
  const RunValue& value = run.value(node, 0);
  const Shape shape = run.shape(node, 0);
  const std::vector<int64_t> sizes = run.attribute(node, "sizes", std::vector<int64_t>());
  if (sizes.size() != static_cast<size_t>(shape.rank()))
    run.refuse(node, "its mask has ", sizes.size(), " sizes for ", shape.to_string());
  Shape mask;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int from = value.is_image && axis > 0 ? axis % 3 + 1 : axis;  // the axis in [N,C,H,W]
    const int64_t size = sizes[static_cast<size_t>(from)];
    mask.push_back(size == 0 && from == 0 ? shape[0] : size);
    if (mask[-1] != 1 && mask[-1] != shape[from])
      run.refuse(node, "its mask doesn't fit ", shape.to_string());
  }
  const Tensor ones = expand(Tensor::full({}, 1.0), mask);
  run.set_random(node, value.tensor * live_dropout(ones, run.attribute(node, "ratio", 0.0)));
}

// PyTorch's linear, for any rank. The weight isn't transposed, and the bias is added in the same pass.
void linear_op(Run& run, const NodeEntry& node) {
  run.set(node, linear(run.tensor(node, 0), run.tensor(node, 1), run.optional_tensor(node, 2)));
}

constexpr std::array kTrainingOps = {
    ImportedOp{"DropPath", drop_path},
    ImportedOp{"Linear", linear_op},
};

}  // namespace

std::span<const ImportedOp> training_ops() {
  return kTrainingOps;
}

}  // namespace dlpipe::engine::onnx
