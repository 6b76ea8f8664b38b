// transpose: the axes in another order; always a view.
#include "dlpipe/engine/ops/transpose.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

namespace {

void expect_permutation(const std::vector<int>& permutation, const Shape& shape) {
  uint32_t seen = 0;
  for (const int axis : permutation) {
    expect_axis("transpose", axis, shape.rank());
    seen |= bit(axis);
  }
  if (static_cast<int>(permutation.size()) == shape.rank() && seen == bit(shape.rank()) - 1) return;
  std::string text;
  for (const int axis : permutation) text += concat(text.empty() ? "" : ",", axis);
  reject("transpose", concat("expected every axis of ", shape.to_string(), " once, got (", text, ")"));
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("transpose", inputs, 1, 1);
  const std::vector<int>& permutation = attrs.as<TransposeAttrs>().permutation;
  expect_permutation(permutation, inputs[0].shape);
  Shape shape;
  for (int axis : permutation) shape.push_back(inputs[0].shape[axis]);
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
    .attr_form = &attr_form<TransposeAttrs>,
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .by_sample =
        [](const Attrs& attrs) {
          const std::vector<int>& permutation = attrs.as<TransposeAttrs>().permutation;
          return !permutation.empty() && permutation.front() == 0;
        },
    .view = [](const Tensor& x,
               const Attrs& attrs) { return permuted_view(x, attrs.as<TransposeAttrs>().permutation); },
    .view_gradient =
        [](size_t, const Tensor& grad, const Shape&, const Attrs& attrs) {
          return permuted_view(grad, inverse_permutation(attrs.as<TransposeAttrs>().permutation));
        },
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"heads", {{{8, 1024, 12, 64}}}, TransposeAttrs{{0, 2, 1, 3}}},
                                       {"pixels", {{{64, 3136, 64}}}, TransposeAttrs{{0, 2, 1}}}};
        },
};

Tensor transpose(const Tensor& x, std::vector<int> permutation) {
  for (int& axis : permutation) axis = checked_axis("transpose", axis, x.rank());
  return apply_one(transpose_op, {x}, TransposeAttrs{std::move(permutation)});
}

}  // namespace dlpipe::engine
