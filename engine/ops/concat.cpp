// concat: tensors one after another along an axis.
#include "dlpipe/engine/ops/concat.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("concat", inputs, 1, OpRecord::kMostInputs);
  const int axis = attrs.as<ConcatAttrs>().axis;
  TensorSpec out = inputs[0];
  expect_axis("concat", axis, out.shape.rank());
  for (size_t k = 1; k < inputs.size(); ++k) {
    Shape shape = inputs[k].shape;
    const int64_t size = shape.rank() == out.shape.rank() ? shape[axis] : 0;
    if (shape.rank() == out.shape.rank()) shape[axis] = out.shape[axis];
    if (!(shape == out.shape) || inputs[k].dtype != out.dtype) {
      reject("concat", concat("expected inputs that differ only along axis ", axis, ", got ",
                              describe(inputs[0]), " and, as number ", k, ", ", describe(inputs[k])));
    }
    out.shape[axis] += size;
  }
  return {out};
}

std::vector<OpSample> samples() {
  return {{"rows", {{{2, 5}}, {{3, 5}}, {{1, 5}}}, ConcatAttrs{0}},
          {"channels", {{{2, 3, 3, 4}}, {{2, 3, 3, 7}}}, ConcatAttrs{3}},
          {"one", {{{4}}}, ConcatAttrs{0}},
          {"channels in blocks", {{{2, 3, 5, 16}}, {{2, 3, 5, 48}}, {{2, 3, 5, 32}}}, ConcatAttrs{3}},
          {"images", {{{2, 3, 5, 16}}, {{1, 3, 5, 16}}}, ConcatAttrs{0}},
          {"rows of images", {{{2, 3, 5, 16}}, {{2, 1, 5, 16}}}, ConcatAttrs{1}},
          {"columns of images", {{{2, 3, 5, 32}}, {{2, 3, 4, 32}}}, ConcatAttrs{2}},
          {"many rows", {{{3, 70000}}, {{3, 9}}}, ConcatAttrs{1}}};
}

}  // namespace

extern const OpRecord concat_op;
const OpRecord concat_op = {
    .name = "concat",
    .attr_form = &attr_form<ConcatAttrs>,
    .input_count = {1, OpRecord::kMostInputs},
    .infer = infer,
    .autocast = Autocast::kWidest,
    .layouts = kAllLayouts,
    .image_inputs = ~0u,
    .batch_inputs = ~0u,
    .by_sample = is_off_axis_0<ConcatAttrs>,
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"channels", {{{32, 56, 56, 64}}, {{32, 56, 56, 64}}}, ConcatAttrs{3}}};
        },
};

Tensor concat(const std::vector<Tensor>& xs, int axis) {
  if (xs.empty()) reject("concat", "expected at least one tensor, got none");
  if (xs.size() > OpRecord::kMostInputs)
    reject("concat", concat("at most ", OpRecord::kMostInputs, " tensors, got ", xs.size()));
  return apply_one(concat_op, xs, ConcatAttrs{checked_axis("concat", axis, xs[0].rank())});
}

}  // namespace dlpipe::engine
