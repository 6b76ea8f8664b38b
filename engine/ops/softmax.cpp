// softmax: e^x / sum e^x along an axis, computed from the largest value so that nothing overflows.
#include "dlpipe/engine/ops/softmax.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

std::vector<TensorSpec> softmax_rule(std::string_view op, std::span<const TensorSpec> inputs,
                                     const Attrs& attrs) {
  expect_inputs(op, inputs, 1, 1);
  expect_floating(op, inputs[0], "x");
  const int axis = attrs.as<SoftmaxAttrs>().axis;
  expect_axis(op, axis, inputs[0].shape.rank());
  if (inputs[0].shape[axis] == 0)
    reject(op, concat("axis ", axis, " of ", inputs[0].shape.to_string(), " is empty"));
  return {{inputs[0].shape, inputs[0].dtype}};
}

std::vector<OpSample> softmax_samples() {
  return {{"rows", {{{5, 37}}}, SoftmaxAttrs{1}, -4, 4},
          {"columns", {{{7, 5}}}, SoftmaxAttrs{0}, -4, 4},
          {"middle axis", {{{2, 5, 3}}}, SoftmaxAttrs{1}, -4, 4},
          {"many rows", {{{900, 40}}}, SoftmaxAttrs{1}, -4, 4}};
}

extern const OpRecord softmax_op;
const OpRecord softmax_op = {
    .name = "softmax",
    .attr_form = &attr_form<SoftmaxAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return softmax_rule("softmax", inputs, attrs); },
    .save_outputs = bit(0),
    .autocast = Autocast::kF32,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SoftmaxAttrs>,
    .samples = softmax_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}}, SoftmaxAttrs{1}}};
        },
};

Tensor softmax(const Tensor& x, int axis) {
  return apply_one(softmax_op, {x}, SoftmaxAttrs{checked_axis("softmax", axis, x.rank())});
}

}  // namespace dlpipe::engine
