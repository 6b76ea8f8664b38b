// linear: y = activation(x W^T + bias). x [..,in], weight [out,in] (PyTorch's), bias [out] or absent. Hidden
// output, with gelu: x W^T + bias.
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/activation.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                              const Attrs& attrs) {
  expect_inputs("linear", inputs, 2, 3);
  const TensorSpec& x = inputs[0];
  const TensorSpec& weight = inputs[1];
  expect_floating("linear", x, "x");
  expect_rank("linear", weight, 2, "a weight [out,in]");
  if (x.shape.rank() < 1 || x.shape[-1] != weight.shape[1]) {
    reject("linear", concat("expected x [..,", weight.shape[1], "] for a weight ", weight.shape.to_string(),
                            ", got ", describe(x)));
  }
  if (inputs.size() == 3 && defined[2]) expect_shape("linear", inputs[2], {weight.shape[0]}, "a bias [out]");
  Shape shape = x.shape;
  shape[-1] = weight.shape[0];
  const TensorSpec y = {shape, x.dtype};
  if (attrs.as<LinearAttrs>().activation == Activation::kGelu) return {y, y};
  return {y};
}

std::vector<OpSample> samples() {
  return {{"with bias", {{{6, 5}}, {{3, 5}}, {{3}}}, LinearAttrs{}},
          {"without bias", {{{6, 5}}, {{3, 5}}}, LinearAttrs{}},
          {"sequence", {{{2, 4, 5}}, {{3, 5}}, {{3}}}, LinearAttrs{}},
          {"vector", {{{5}}, {{3, 5}}, {{3}}}, LinearAttrs{}},
          {"large", {{{200, 130}}, {{150, 130}}, {{150}}}, LinearAttrs{}},
          {"relu", {{{6, 5}}, {{3, 5}}, {{3}}}, LinearAttrs{Activation::kRelu}},
          {"relu without bias, sequence", {{{2, 4, 5}}, {{3, 5}}}, LinearAttrs{Activation::kRelu}},
          {"gelu", {{{6, 5}}, {{3, 5}}, {{3}}}, LinearAttrs{Activation::kGelu}},
          {"gelu without bias, vector", {{{5}}, {{3, 5}}}, LinearAttrs{Activation::kGelu}},
          {"large, gelu", {{{200, 130}}, {{150, 130}}, {{150}}}, LinearAttrs{Activation::kGelu}}};
}

double flops(std::span<const TensorSpec> inputs, const Attrs&) {
  return 2.0 * static_cast<double>(inputs[0].shape.elements()) * static_cast<double>(inputs[1].shape[0]);
}

}  // namespace

extern const OpRecord linear_op;
const OpRecord linear_op = {
    .name = "linear",
    .attr_form = &attr_form<LinearAttrs>,
    .input_count = {2, 3},
    .infer = infer,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0),
    .fused = fused_op<LinearAttrs>,
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"with bias", {{{4096, 1024}}, {{4096, 1024}}, {{4096}}}, LinearAttrs{}},
              {"tokens", {{{8, 1024, 768}}, {{3072, 768}}, {{3072}}}, LinearAttrs{Activation::kGelu}}};
        },
    .f32 = {1e-5, 2e-5, "sums of up to 200 products of size 1"},
    .bf16 = {2e-2, 5e-2, "sums are in f32, the result of size up to 10 is rounded to 8 bits"},
    .f16 = {2.5e-3, 6e-3, "sums are in f32, the result of size up to 10 is rounded to 11 bits"},
    .flops = flops,
};

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (!bias.defined()) return apply_one(linear_op, {x, weight}, LinearAttrs{activation});
  return apply_one(linear_op, {x, weight, bias}, LinearAttrs{activation});
}

Tensor activate(const Tensor& x, Activation activation) {
  const OpRecord* const op = of_activation(activation, relu_op, gelu_op);
  return op == nullptr ? x : apply_one(*op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
