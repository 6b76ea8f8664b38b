// reshape: the same elements in row-major order under another shape; a view of contiguous tensors.
#include "dlpipe/engine/ops/reshape.h"

#include <algorithm>

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine {

namespace {

// By division: the product of sizes that a file has may be past what 64 bits hold.
bool has_elements(const Shape& shape, int64_t elements) {
  if (std::ranges::find(shape, 0) != shape.end()) return elements == 0;
  for (const int64_t size : shape) {
    if (elements % size != 0) return false;
    elements /= size;
  }
  return elements == 1;
}

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("reshape", inputs, 1, 1);
  const Shape& shape = attrs.as<ReshapeAttrs>().shape;
  expect_sizes("reshape", shape);
  if (!has_elements(shape, inputs[0].shape.elements())) {
    reject("reshape", concat("expected a shape of ", inputs[0].shape.elements(), " elements for ",
                             inputs[0].shape.to_string(), ", got ", shape.to_string()));
  }
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> samples() {
  return {{"merge", {{{3, 4, 5}}}, ReshapeAttrs{{12, 5}}},
          {"split", {{{6, 4}}}, ReshapeAttrs{{2, 3, 2, 2}}},
          {"to a scalar", {{{1, 1}}}, ReshapeAttrs{{}}}};
}

// The one size of -1, if there is one, from the others.
Shape completed(const Shape& shape, int64_t elements) {
  Shape result = shape;
  int64_t left = elements;
  bool divides = true;
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      if (open >= 0) reject("reshape", concat("expected one size of -1 at most, got ", shape.to_string()));
      open = i;
    } else {
      divides = divides && shape[i] != 0 && left % shape[i] == 0;
      if (divides) left /= shape[i];
    }
  }
  if (open < 0) return result;
  if (!divides) reject("reshape", concat(elements, " elements don't divide into ", shape.to_string()));
  result[open] = left;
  return result;
}

}  // namespace

extern const OpRecord reshape_op;
const OpRecord reshape_op = {
    .name = "reshape",
    .attr_form = &attr_form<ReshapeAttrs>,
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .view = [](const Tensor& x,
               const Attrs& attrs) { return reshaped_view(x, attrs.as<ReshapeAttrs>().shape); },
    .view_gradient = [](size_t, const Tensor& grad, const Shape& input,
                        const Attrs&) { return reshaped_view(grad, input); },
    .samples = samples,
};

Tensor reshape(const Tensor& x, const Shape& shape) {
  return apply_one(reshape_op, {x}, ReshapeAttrs{completed(shape, x.elements())});
}

}  // namespace dlpipe::engine
