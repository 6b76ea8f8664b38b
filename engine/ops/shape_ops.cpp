// Ops that only move elements.
#include "engine/ops/shape_ops.h"

#include <algorithm>

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/records.h"

namespace dlpipe::engine {

std::vector<int64_t> row_major(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

Tensor reshaped_view(const Tensor& x, const Shape& shape) {
  if (!x.is_contiguous()) return {};
  return x.view_as(shape, row_major(shape), 0);
}

Tensor permuted_view(const Tensor& x, const std::vector<int>& permutation) {
  Shape shape;
  std::vector<int64_t> strides;
  for (int axis : permutation) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[static_cast<size_t>(axis)]);
  }
  return x.view_as(shape, strides, 0);
}

std::vector<int> inverse_permutation(const std::vector<int>& permutation) {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int>(i);
  return inverse;
}

// concat: concatenates tensors along an axis.

namespace {

std::vector<TensorSpec> concat_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                    const Attrs& attrs) {
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
                              describe(inputs[0]), ", and as input ", k, " ", describe(inputs[k])));
    }
    out.shape[axis] += size;
  }
  return {out};
}

std::vector<OpSample> concat_samples() {
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
    .infer = concat_rule,
    .autocast = Autocast::kWidest,
    .layouts = kAllLayouts,
    .image_inputs = ~0u,
    .batch_inputs = ~0u,
    .by_sample = is_off_axis_0<ConcatAttrs>,
    .samples = concat_samples,
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

// expand: a tensor broadcast to a larger shape, always a view.

namespace {

std::vector<TensorSpec> expand_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                    const Attrs& attrs) {
  expect_inputs("expand", inputs, 1, 1);
  const Shape& shape = attrs.as<ExpandAttrs>().shape;
  expect_sizes("expand", shape);
  if (!(broadcast_shape("expand", inputs[0].shape, shape) == shape)) {
    reject("expand",
           concat("expected a shape that ", describe(inputs[0]), " broadcasts to, got ", shape.to_string()));
  }
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> expand_samples() {
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
    .infer = expand_rule,
    .view = [](const Tensor& x,
               const Attrs& attrs) { return expanded_view(x, attrs.as<ExpandAttrs>().shape); },
    .samples = expand_samples,
};

Tensor expand(const Tensor& x, const Shape& shape) {
  return apply_one(expand_op, {x}, ExpandAttrs{shape});
}

// flatten: [N,...] -> [N,K]. Images [N,H,W,C] are flattened in C,H,W order, which PyTorch's linear weights
// expect; everything else in row-major order.

namespace {

Shape flat_shape(const Shape& shape) {
  int64_t count = 1;
  for (int i = 1; i < shape.rank(); ++i) count *= shape[i];
  return {shape[0], count};
}

std::vector<TensorSpec> flatten_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                     const Attrs&) {
  expect_inputs("flatten", inputs, 1, 1);
  if (inputs[0].shape.rank() == 0) reject("flatten", "expected [N,...], got a scalar; reshape() it first");
  return {{flat_shape(inputs[0].shape), inputs[0].dtype}};
}

// With one channel or one pixel, memory already is in C,H,W order.
bool keeps_order(const Shape& shape) {
  return shape.rank() != 4 || shape[3] == 1 || shape[1] * shape[2] == 1;
}

std::vector<OpSample> flatten_samples() {
  return {{"images", {{{2, 3, 5, 4}}}, Attrs{}},    {"one channel", {{{2, 3, 5, 1}}}, Attrs{}},
          {"one pixel", {{{2, 1, 1, 9}}}, Attrs{}}, {"rows", {{{3, 4}}}, Attrs{}},
          {"sequence", {{{2, 3, 4}}}, Attrs{}},     {"large images", {{{20, 17, 13, 24}}}, Attrs{}}};
}

}  // namespace

extern const OpRecord flatten_op;
const OpRecord flatten_op = {
    .name = "flatten",
    .infer = flatten_rule,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .view =
        [](const Tensor& x, const Attrs&) {
          return keeps_order(x.shape()) ? reshaped_view(x, flat_shape(x.shape())) : Tensor();
        },
    .view_gradient = [](size_t, const Tensor& grad, const Shape& input,
                        const Attrs&) { return keeps_order(input) ? reshaped_view(grad, input) : Tensor(); },
    .samples = flatten_samples,
    .bench =
        [] {
          return large_sample(flatten_samples(), {{{128, 14, 14, 512}}});
        },
};

Tensor flatten(const Tensor& x) {
  return apply_one(flatten_op, {x});
}

// reshape: the same elements in row-major order with another shape; a view if the tensor is contiguous.

namespace {

// Divides, because the product of sizes in a file may overflow 64 bits.
bool has_elements(const Shape& shape, int64_t elements) {
  if (std::ranges::find(shape, 0) != shape.end()) return elements == 0;
  for (const int64_t size : shape) {
    if (elements % size != 0) return false;
    elements /= size;
  }
  return elements == 1;
}

std::vector<TensorSpec> reshape_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                     const Attrs& attrs) {
  expect_inputs("reshape", inputs, 1, 1);
  const Shape& shape = attrs.as<ReshapeAttrs>().shape;
  expect_sizes("reshape", shape);
  if (!has_elements(shape, inputs[0].shape.elements())) {
    reject("reshape", concat("expected a shape of ", inputs[0].shape.elements(), " elements for ",
                             inputs[0].shape.to_string(), ", got ", shape.to_string()));
  }
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> reshape_samples() {
  return {{"merge", {{{3, 4, 5}}}, ReshapeAttrs{{12, 5}}},
          {"split", {{{6, 4}}}, ReshapeAttrs{{2, 3, 2, 2}}},
          {"to a scalar", {{{1, 1}}}, ReshapeAttrs{{}}}};
}

// Replaces the size of -1, if there is one, by the size that the others leave.
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
    .infer = reshape_rule,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .view = [](const Tensor& x,
               const Attrs& attrs) { return reshaped_view(x, attrs.as<ReshapeAttrs>().shape); },
    .view_gradient = [](size_t, const Tensor& grad, const Shape& input,
                        const Attrs&) { return reshaped_view(grad, input); },
    .samples = reshape_samples,
};

Tensor reshape(const Tensor& x, const Shape& shape) {
  return apply_one(reshape_op, {x}, ReshapeAttrs{completed(shape, x.elements())});
}

// slice: every step-th element of a range of one axis; always a view.

namespace {

std::vector<TensorSpec> slice_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                   const Attrs& any) {
  const auto& attrs = any.as<SliceAttrs>();
  expect_inputs("slice", inputs, 1, 1);
  Shape shape = inputs[0].shape;
  expect_axis("slice", attrs.axis, shape.rank());
  if (attrs.begin < 0 || attrs.begin > attrs.end || attrs.end > shape[attrs.axis] || attrs.step < 1) {
    reject("slice", concat("range ", attrs.begin, "..", attrs.end, " in steps of ", attrs.step, " of axis ",
                           attrs.axis, " of ", shape.to_string(),
                           "; the range must be within the axis, and the step 1 or more"));
  }
  shape[attrs.axis] = attrs.count();
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> slice_samples() {
  return {{"rows", {{{7, 5}}}, SliceAttrs{0, 2, 6, 1}},
          {"every second column", {{{4, 9}}}, SliceAttrs{1, 1, 9, 2}},
          {"middle axis", {{{2, 6, 3}}}, SliceAttrs{1, 0, 5, 3}},
          {"nothing", {{{2, 6}}}, SliceAttrs{1, 3, 3, 1}}};
}

}  // namespace

Tensor sliced_view(const Tensor& x, const SliceAttrs& attrs) {
  Shape shape = x.shape();
  shape[attrs.axis] = attrs.count();
  std::vector<int64_t> strides(x.strides().begin(), x.strides().end());
  int64_t& stride = strides[static_cast<size_t>(attrs.axis)];
  const int64_t offset = attrs.begin * stride;
  if (attrs.count() > 1) stride *= attrs.step;  // a longer step could overflow 64 bits
  return x.view_as(shape, strides, offset);
}

extern const OpRecord slice_op;
const OpRecord slice_op = {
    .name = "slice",
    .attr_form = &attr_form<SliceAttrs>,
    .infer = slice_rule,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SliceAttrs>,
    .view = [](const Tensor& x, const Attrs& attrs) { return sliced_view(x, attrs.as<SliceAttrs>()); },
    .samples = slice_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"queries", {{{8192, 2304}}}, SliceAttrs{1, 768, 1536, 1}}};
        },
};

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step) {
  axis = checked_axis("slice", axis, x.rank());
  if (begin < 0) begin += x.size(axis);
  if (end < 0) end += x.size(axis);
  return apply_one(slice_op, {x}, SliceAttrs{axis, begin, end, step});
}

// transpose: the axes in another order; always a view.

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

std::vector<TensorSpec> transpose_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                       const Attrs& attrs) {
  expect_inputs("transpose", inputs, 1, 1);
  const std::vector<int>& permutation = attrs.as<TransposeAttrs>().permutation;
  expect_permutation(permutation, inputs[0].shape);
  Shape shape;
  for (int axis : permutation) shape.push_back(inputs[0].shape[axis]);
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> transpose_samples() {
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
    .infer = transpose_rule,
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
    .samples = transpose_samples,
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
