// transpose: the axes in another order; always a view.
#include "dlpipe/engine/ops/transpose.h"

#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("transpose", inputs, 1, 1);
  Shape shape;
  for (int axis : attrs.as<TransposeAttrs>().permutation) shape.push_back(inputs[0].shape[axis]);
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> samples() {
  return {{"matrix", {{{5, 7}}}, TransposeAttrs{{1, 0}}},
          {"image to planes", {{{2, 3, 4, 5}}}, TransposeAttrs{{0, 3, 1, 2}}},
          {"rotation", {{{2, 3, 4}}}, TransposeAttrs{{1, 2, 0}}},
          {"large", {{{150, 3, 170}}}, TransposeAttrs{{2, 1, 0}}}};
}

}  // namespace

extern const OpRecord transpose_op;
const OpRecord transpose_op = {
    .name = "transpose",
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .view = [](const Tensor& x,
               const Attrs& attrs) { return permuted_view(x, attrs.as<TransposeAttrs>().permutation); },
    .view_gradient =
        [](size_t, const Tensor& grad, const Shape&, const Attrs& attrs) {
          return permuted_view(grad, inverse_permutation(attrs.as<TransposeAttrs>().permutation));
        },
    .samples = samples,
};

Tensor transpose(const Tensor& x, std::vector<int> permutation) {
  uint32_t seen = 0;
  for (int& axis : permutation) {
    axis = checked_axis("transpose", axis, x.rank());
    seen |= bit(axis);
  }
  if (static_cast<int>(permutation.size()) != x.rank() || seen != bit(x.rank()) - 1) {
    std::string text;
    for (int axis : permutation) text += concat(text.empty() ? "" : ",", axis);
    reject("transpose", concat("expected every axis of ", x.shape().to_string(), " once, got (", text, ")"));
  }
  return apply_one(transpose_op, {x}, TransposeAttrs{std::move(permutation)});
}

}  // namespace dlpipe::engine
