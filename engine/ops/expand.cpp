// expand: a tensor broadcast to a larger shape, always a view.
#include "dlpipe/engine/ops/expand.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("expand", inputs, 1, 1);
  const Shape& shape = attrs.as<ExpandAttrs>().shape;
  expect_sizes("expand", shape);
  if (!(broadcast_shape("expand", inputs[0].shape, shape) == shape)) {
    reject("expand",
           concat("expected a shape that ", describe(inputs[0]), " broadcasts to, got ", shape.to_string()));
  }
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> samples() {
  return {{"a row", {{{1, 5}}}, ExpandAttrs{{4, 5}}},
          {"a new axis", {{{3, 1}}}, ExpandAttrs{{2, 3, 4}}},
          {"a scalar", {{{}}}, ExpandAttrs{{3, 2}}},
          {"nothing to do", {{{2, 6}}}, ExpandAttrs{{2, 6}}}};
}

}  // namespace

Tensor expanded_view(const Tensor& x, const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()), 0);
  const int added = shape.rank() - x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.size(axis) == shape[axis + added])
      strides[static_cast<size_t>(axis) + static_cast<size_t>(added)] =
          x.strides()[static_cast<size_t>(axis)];
  }
  return x.view_as(shape, strides, 0);
}

Tensor expanded_gradient(const Tensor& grad, const Shape& shape) {
  const int added = grad.rank() - shape.rank();
  std::vector<int> stretched;
  for (int axis = 0; axis < grad.rank(); ++axis) {
    if (axis < added || shape[axis - added] != grad.size(axis)) stretched.push_back(axis);
  }
  return reshape(stretched.empty() ? grad : sum(grad, stretched), shape);
}

extern const OpRecord expand_op;
const OpRecord expand_op = {
    .name = "expand",
    .attr_form = &attr_form<ExpandAttrs>,
    .infer = infer,
    .view = [](const Tensor& x,
               const Attrs& attrs) { return expanded_view(x, attrs.as<ExpandAttrs>().shape); },
    .samples = samples,
};

Tensor expand(const Tensor& x, const Shape& shape) {
  return apply_one(expand_op, {x}, ExpandAttrs{shape});
}

}  // namespace dlpipe::engine
