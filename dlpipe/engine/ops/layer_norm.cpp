// layer_norm: every row of the last axis to mean 0 and variance 1, then scaled and shifted (Ba, Kiros and
// Hinton, "Layer Normalization", 2016). Hidden outputs: mean and 1/sqrt(variance + epsilon) of each row.
#include "dlpipe/engine/ops/layer_norm.h"

#include "dlpipe/engine/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  expect_inputs("layer_norm", inputs, 3, 3);
  const TensorSpec& x = inputs[0];
  expect_floating("layer_norm", x, "x");
  if (x.shape.rank() == 0 || x.shape[-1] == 0) {
    reject("layer_norm", concat("expected x [..,C], got ", describe(x)));
  }
  const int64_t channels = x.shape[-1];
  expect_shape("layer_norm", inputs[1], {channels}, "gamma [C]");
  expect_shape("layer_norm", inputs[2], {channels}, "beta [C]");
  const Shape rows = {x.shape.elements() / channels};
  return {{x.shape, x.dtype}, {rows, x.dtype}, {rows, x.dtype}};
}

std::vector<OpSample> samples() {
  return {{"rows", {{{6, 20}}, {{20}}, {{20}}}, LayerNormAttrs{}},
          {"sequence", {{{2, 3, 37}}, {{37}}, {{37}}}, LayerNormAttrs{1e-3}},
          {"many rows", {{{900, 40}}, {{40}}, {{40}}}, LayerNormAttrs{}}};
}

}  // namespace

extern const OpRecord layer_norm_op;
const OpRecord layer_norm_op = {
    .name = "layer_norm",
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .save_outputs = bit(1) | bit(2),
    .autocast = Autocast::kF32,
    .samples = samples,
    .f32 = {1e-4, 1e-5, "the gradients of gamma and beta are sums over 900 rows"},
    .flops = [](std::span<const TensorSpec> inputs,
                const Attrs&) { return 8.0 * static_cast<double>(inputs[0].shape.elements()); },
};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return apply_one(layer_norm_op, {x, gamma, beta}, LayerNormAttrs{epsilon});
}

}  // namespace dlpipe::engine
