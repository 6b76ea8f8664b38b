// max: the largest value along an axis. Hidden output: its place along the axis, i64; the first of equals,
// and a NaN counts as the largest.
#include "dlpipe/engine/ops/max.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& any) {
  const auto& attrs = any.as<MaxAttrs>();
  expect_inputs("max", inputs, 1, 1);
  expect_floating("max", inputs[0], "x");
  const Shape& x = inputs[0].shape;
  expect_axis("max", attrs.axis, x.rank());
  if (x[attrs.axis] == 0) reject("max", concat("axis ", attrs.axis, " of ", x.to_string(), " is empty"));
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != attrs.axis) {
      shape.push_back(x[i]);
    } else if (attrs.keep_dims) {
      shape.push_back(1);
    }
  }
  return {{shape, inputs[0].dtype}, {shape, DType::kI64}};
}

std::vector<OpSample> samples() {
  return {{"last axis", {{{5, 37}}}, MaxAttrs{1, false}},
          {"first axis", {{{5, 37}}}, MaxAttrs{0, true}},
          {"middle axis", {{{2, 7, 3}}}, MaxAttrs{1, false}}};
}

}  // namespace

extern const OpRecord max_op;
const OpRecord max_op = {
    .name = "max",
    .attr_form = &attr_form<MaxAttrs>,
    .infer = infer,
    .save_outputs = bit(1),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}}, MaxAttrs{1, false}},
                                       {"images", {{{64, 3136, 64}}}, MaxAttrs{1, false}}};
        },
};

Tensor max(const Tensor& x, int axis, bool keep_dims) {
  return apply_one(max_op, {x}, MaxAttrs{checked_axis("max", axis, x.rank()), keep_dims});
}

}  // namespace dlpipe::engine
