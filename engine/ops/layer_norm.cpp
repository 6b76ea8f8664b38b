// layer_norm: every row of the last axis to mean 0 and variance 1, then scaled and shifted (Ba, Kiros and
// Hinton, "Layer Normalization", 2016). Rows of any precision are computed in f32. Hidden outputs: mean and
// 1/sqrt(variance + epsilon) of each row.
#include "dlpipe/engine/ops/layer_norm.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

std::vector<TensorSpec> layer_norm_outputs(std::string_view op, const TensorSpec& x, const TensorSpec& gamma,
                                           const TensorSpec& beta, const LayerNormAttrs& attrs) {
  expect_floating(op, x, "x");
  if (x.shape.rank() == 0 || x.shape[-1] == 0) {
    reject(op, concat("expected x [..,C], got ", describe(x)));
  }
  const int64_t channels = x.shape[-1];
  const DType parameters = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  expect_shape(op, gamma, {channels}, "gamma [C]");
  expect_shape(op, beta, {channels}, "beta [C]");
  expect_dtype(op, gamma, parameters, "gamma");
  expect_dtype(op, beta, parameters, "beta");
  const Shape rows = {x.shape.elements() / channels};
  const DType output = x.dtype == DType::kF64 ? DType::kF64 : attrs.output;
  return {{x.shape, output}, {rows, parameters}, {rows, parameters}};
}

std::vector<OpSample> layer_norm_samples(size_t inputs_like_x) {
  std::vector<OpSample> samples;
  const auto add = [&](const char* name, const Shape& x, const LayerNormAttrs& attrs) {
    OpSample sample{name, std::vector<TensorSpec>(inputs_like_x, {x}), attrs};
    sample.inputs.insert(sample.inputs.end(), 2, {{x[-1]}});
    samples.push_back(std::move(sample));
  };
  add("rows", {6, 24}, {});
  add("sequence", {2, 3, 37}, {1e-3});
  add("many rows", {900, 40}, {});
  add("wide rows", {3, 1104}, {});
  return samples;
}

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("layer_norm", inputs, 3, 3);
  return layer_norm_outputs("layer_norm", inputs[0], inputs[1], inputs[2], attrs.as<LayerNormAttrs>());
}

}  // namespace

extern const OpRecord layer_norm_op;
const OpRecord layer_norm_op = {
    .name = "layer_norm",
    .attr_form = &attr_form<LayerNormAttrs>,
    .input_count = {3, 3},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .save_outputs = bit(1) | bit(2),
    .autocast = Autocast::kAsIs,
    .samples = [] { return layer_norm_samples(1); },
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}, {{1024}}, {{1024}}}, LayerNormAttrs{}}};
        },
    .f32 = {1e-4, 1e-5, "the gradients of gamma and beta are sums over 900 rows"},
    .flops = [](std::span<const TensorSpec> inputs,
                const Attrs&) { return 8.0 * static_cast<double>(inputs[0].shape.elements()); },
};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, DType output) {
  return apply_one(layer_norm_op, {x, gamma, beta}, LayerNormAttrs{epsilon, output});
}

}  // namespace dlpipe::engine
