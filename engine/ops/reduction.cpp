#include "dlpipe/engine/ops/reduction.h"

#include "dlpipe/engine/ops/shape_rules.h"

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

}  // namespace dlpipe::engine
