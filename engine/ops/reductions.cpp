// Ops that reduce axes: sum, mean, max.
#include "engine/ops/reductions.h"

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/records.h"

namespace dlpipe::engine {

ReductionAttrs reduction_attrs(std::string_view op, const Tensor& x, const std::vector<int>& axes,
                               bool keep_dims) {
  ReductionAttrs attrs;
  attrs.keep_dims = keep_dims;
  for (int axis : axes) attrs.axes |= bit(checked_axis(op, axis, x.rank()));
  if (axes.empty()) attrs.axes = bit(x.rank()) - 1;
  return attrs;
}

Shape kept_shape(const Shape& shape, uint32_t axes) {
  Shape kept = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (axes & bit(i)) kept[i] = 1;
  }
  return kept;
}

std::vector<TensorSpec> reduction_rule(std::string_view op, std::span<const TensorSpec> inputs,
                                       const Attrs& any) {
  const auto& attrs = any.as<ReductionAttrs>();
  expect_inputs(op, inputs, 1, 1);
  expect_floating(op, inputs[0], "x");
  if (attrs.axes >> inputs[0].shape.rank() != 0)
    reject(op, concat("axes ", attrs.axes, " (bits) are not those of ", describe(inputs[0])));
  if (attrs.keep_dims) return {{kept_shape(inputs[0].shape, attrs.axes), inputs[0].dtype}};
  Shape shape;
  for (int i = 0; i < inputs[0].shape.rank(); ++i) {
    if (!(attrs.axes & bit(i))) shape.push_back(inputs[0].shape[i]);
  }
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> reduction_samples() {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& shape, uint32_t axes, bool keep_dims) {
    samples.push_back({name, {{shape}}, ReductionAttrs{axes, keep_dims}});
  };
  sample("all", {5, 37}, 3, false);
  sample("rows", {5, 37}, 2, false);
  sample("columns", {5, 37}, 1, true);
  sample("pixels of images", {2, 3, 5, 16}, bit(1) | bit(2), false);
  sample("every second axis", {3, 4, 2, 5, 3}, bit(0) | bit(2) | bit(4), true);
  sample("one element", {}, 0, false);
  sample("large all", {3, 40001}, 3, false);
  sample("large columns", {40001, 3}, 1, false);
  sample("large outer and inner", {20, 4, 1003}, bit(0) | bit(2), false);
  return samples;
}

std::vector<OpSample> reduction_bench_samples() {
  const TensorSpec images = {{64, 56, 56, 64}}, tokens = {{8, 1024, 768}}, colours = {{1 << 21, 3}};
  return {{"rows", {{{16384, 1024}}}, ReductionAttrs{bit(1), false}},
          {"all", {images}, ReductionAttrs{bit(0) | bit(1) | bit(2) | bit(3), false}},
          {"channels", {images}, ReductionAttrs{bit(0) | bit(1) | bit(2), false}},
          {"pixels", {images}, ReductionAttrs{bit(1) | bit(2), false}},
          {"planes", {{{64, 64, 3136}}}, ReductionAttrs{bit(0) | bit(2), false}},
          {"tokens", {tokens}, ReductionAttrs{bit(2), false}},
          {"batches", {tokens}, ReductionAttrs{bit(0), false}},
          {"colours", {colours}, ReductionAttrs{bit(1), false}},
          {"nothing", {{{1 << 21, 1}}}, ReductionAttrs{bit(1), false}},
          {"of few columns", {colours}, ReductionAttrs{bit(0), false}}};
}

double reduction_count(const Shape& shape, uint32_t axes) {
  double count = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (axes & bit(i)) count *= static_cast<double>(shape[i]);
  }
  return count;
}

extern const OpRecord sum_op;
const OpRecord sum_op = {
    .name = "sum",
    .attr_form = &attr_form<ReductionAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return reduction_rule("sum", inputs, attrs); },
    .samples = reduction_samples,
    .bench = reduction_bench_samples,
    .f32 = {1e-5, 1e-4, "sums of up to 120,000 terms of size 1"},
    .bf16 = {1e-2, 1e-1, "sums are in f32, the result is rounded to 8 bits"},
    .f16 = {2e-3, 2e-2, "sums are in f32, the result is rounded to 11 bits"},
};

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep_dims) {
  return apply_one(sum_op, {x}, reduction_attrs("sum", x, axes, keep_dims));
}

extern const OpRecord mean_op;
const OpRecord mean_op = {
    .name = "mean",
    .attr_form = &attr_form<ReductionAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return reduction_rule("mean", inputs, attrs); },
    .samples = reduction_samples,
    .bench = reduction_bench_samples,
    .f32 = {1e-5, 1e-6, "sums of up to 120,000 terms of size 1, divided by their number"},
    .bf16 = {1e-2, 1e-3, "sums are in f32, the result is rounded to 8 bits"},
    .f16 = {2e-3, 2e-4, "sums are in f32, the result is rounded to 11 bits"},
};

Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep_dims) {
  return apply_one(mean_op, {x}, reduction_attrs("mean", x, axes, keep_dims));
}

// max: the largest value along an axis. Hidden output: its index along the axis, i64: the first of equal ones;
// NaN counts as the largest.

namespace {

std::vector<TensorSpec> max_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                 const Attrs& any) {
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

std::vector<OpSample> max_samples() {
  return {{"last axis", {{{5, 37}}}, MaxAttrs{1, false}},
          {"first axis", {{{5, 37}}}, MaxAttrs{0, true}},
          {"middle axis", {{{2, 7, 3}}}, MaxAttrs{1, false}}};
}

}  // namespace

extern const OpRecord max_op;
const OpRecord max_op = {
    .name = "max",
    .attr_form = &attr_form<MaxAttrs>,
    .infer = max_rule,
    .save_outputs = bit(1),
    .samples = max_samples,
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
