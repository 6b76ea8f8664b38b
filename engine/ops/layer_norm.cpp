// Norms of rows: layer_norm, alone or after an addition.
#include "engine/ops/layer_norm.h"

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/records.h"

namespace dlpipe::engine {

// layer_norm: normalises every row of the last axis to mean 0 and variance 1, then scales and shifts it (Ba, Kiros and
// Hinton, "Layer Normalization", 2016). Rows of any precision are computed in f32. Hidden outputs: mean and
// 1/sqrt(variance + epsilon) of each row.

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

std::vector<TensorSpec> layer_norm_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                        const Attrs& attrs) {
  expect_inputs("layer_norm", inputs, 3, 3);
  return layer_norm_outputs("layer_norm", inputs[0], inputs[1], inputs[2], attrs.as<LayerNormAttrs>());
}

}  // namespace

extern const OpRecord layer_norm_op;
const OpRecord layer_norm_op = {
    .name = "layer_norm",
    .attr_form = &attr_form<LayerNormAttrs>,
    .input_count = {3, 3},
    .infer = layer_norm_rule,
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

// add_layer_norm: continues the residual stream of a transformer, s = x + branch, and normalises it for the
// next branch, y = layer_norm(s), in one pass over memory forward and one backward. s has the wider dtype, y
// the dtype that its reader needs, so that no separate cast is necessary. Hidden outputs: as for layer_norm, of s.

namespace {

std::vector<TensorSpec> add_layer_norm_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                            const Attrs& attrs) {
  expect_inputs("add_layer_norm", inputs, 4, 4);
  const TensorSpec& x = inputs[0];
  const TensorSpec& branch = inputs[1];
  expect_floating("add_layer_norm", branch, "branch");
  expect_shape("add_layer_norm", branch, x.shape, "a branch like x");
  if ((x.dtype == DType::kF64) != (branch.dtype == DType::kF64))
    expect_dtype("add_layer_norm", branch, x.dtype, "branch");
  TensorSpec sum = {x.shape, x.dtype};
  if (x.dtype != branch.dtype) sum.dtype = DType::kF32;
  std::vector<TensorSpec> outputs =
      layer_norm_outputs("add_layer_norm", sum, inputs[2], inputs[3], attrs.as<LayerNormAttrs>());
  outputs.insert(outputs.begin(), sum);
  return outputs;
}

}  // namespace

std::span<const Tensor> residual_gradients(std::span<Tensor> grads) {
  if (!grads[0].defined() || !grads[1].defined() || grads[0].dtype() != grads[1].dtype())
    return grads.first(2);
  grads[1] = grads[0];
  return grads.first(1);
}

extern const OpRecord add_layer_norm_op;
const OpRecord add_layer_norm_op = {
    .name = "add_layer_norm",
    .attr_form = &attr_form<LayerNormAttrs>,
    .input_count = {4, 4},
    .infer = add_layer_norm_rule,
    .visible_outputs = 2,
    .save_inputs = bit(2),
    .save_outputs = bit(0) | bit(2) | bit(3),
    .autocast = Autocast::kAsIs,
    .image_inputs = bit(0) | bit(1),
    .samples = [] { return layer_norm_samples(2); },
    .bench =
        [] {
          return std::vector<OpSample>{
              {"rows", {{{16384, 1024}}, {{16384, 1024}}, {{1024}}, {{1024}}}, LayerNormAttrs{}}};
        },
    .f32 = {1e-4, 1e-5, "the gradients of gamma and beta are sums over 900 rows"},
    .f16 = {1e-2, 1e-2, "s is rounded to 11 bits, and gamma's gradient sums 900 of its norms"},
    .flops = [](std::span<const TensorSpec> inputs,
                const Attrs&) { return 9.0 * static_cast<double>(inputs[0].shape.elements()); },
};

std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                     const Tensor& beta, double epsilon, DType output) {
  std::vector<Tensor> both =
      apply(add_layer_norm_op, {x, branch, gamma, beta}, LayerNormAttrs{epsilon, output});
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace dlpipe::engine
