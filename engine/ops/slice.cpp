// slice: every step-th element of a range of one axis; always a view.
#include "dlpipe/engine/ops/slice.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& any) {
  const auto& attrs = any.as<SliceAttrs>();
  expect_inputs("slice", inputs, 1, 1);
  Shape shape = inputs[0].shape;
  expect_axis("slice", attrs.axis, shape.rank());
  if (attrs.begin < 0 || attrs.begin > attrs.end || attrs.end > shape[attrs.axis] || attrs.step < 1) {
    reject("slice", concat("range ", attrs.begin, "..", attrs.end, " in steps of ", attrs.step, " of axis ",
                           attrs.axis, " of ", shape.to_string(),
                           "; it must lie within the axis, steps are 1 or more"));
  }
  shape[attrs.axis] = attrs.count();
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> samples() {
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
  if (attrs.count() > 1) stride *= attrs.step;  // a longer step could go past what 64 bits hold
  return x.view_as(shape, strides, offset);
}

extern const OpRecord slice_op;
const OpRecord slice_op = {
    .name = "slice",
    .attr_form = &attr_form<SliceAttrs>,
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SliceAttrs>,
    .view = [](const Tensor& x, const Attrs& attrs) { return sliced_view(x, attrs.as<SliceAttrs>()); },
    .samples = samples,
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

}  // namespace dlpipe::engine
