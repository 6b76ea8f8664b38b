// concat: tensors one after another along an axis.
#include "dlpipe/engine/ops/concat.h"

#include <algorithm>

#include "dlpipe/engine/core/attr_form.h"
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
          {"one", {{{4}}}, ConcatAttrs{0}}};
}

}  // namespace

extern const OpRecord concat_op;
const OpRecord concat_op = {
    .name = "concat",
    .attr_form = &attr_form<ConcatAttrs>,
    .input_count = {1, OpRecord::kMostInputs},
    .infer = infer,
    .autocast = Autocast::kAsIs,  // bytes are copied; concat() makes dtypes equal
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
  const auto has = [&](DType dtype) {
    return std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return x.dtype() == dtype; });
  };
  const bool has_f64 = has(DType::kF64);
  const bool has_f32 = has(DType::kF32) || (has(DType::kBF16) && has(DType::kF16));
  std::vector<Tensor> parts = xs;
  for (Tensor& part : parts) {
    if ((has_f64 || has_f32) && is_floating(part.dtype()))
      part = cast(part, has_f64 ? DType::kF64 : DType::kF32);
  }
  return apply_one(concat_op, parts, ConcatAttrs{checked_axis("concat", axis, xs[0].rank())});
}

}  // namespace dlpipe::engine
