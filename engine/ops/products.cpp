// Matrix products: matmul and linear.
#include "engine/ops/products.h"

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/records.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine {

// matmul: [..,M,K] x [..,K,N] -> [..,M,N]; batch axes broadcast; either side may be transposed.

namespace {

Shape batch_of(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2)));
}

std::vector<TensorSpec> matmul_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                    const Attrs& any) {
  const auto& attrs = any.as<MatmulAttrs>();
  expect_inputs("matmul", inputs, 2, 2);
  for (const TensorSpec& input : inputs) {
    expect_floating("matmul", input, "matrix");
    if (input.shape.rank() < 2) {
      reject("matmul", concat("expected matrices [..,M,K] and [..,K,N], got ", describe(inputs[0]), " and ",
                              describe(inputs[1]), "; reshape() vectors first"));
    }
  }
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  const int64_t k = attrs.transpose_a ? a[-2] : a[-1];
  const int64_t k_of_b = attrs.transpose_b ? b[-1] : b[-2];
  if (k != k_of_b) {
    reject("matmul", concat("expected equal inner sizes, got ", k, " of ", a.to_string(),
                            attrs.transpose_a ? " transposed" : "", " and ", k_of_b, " of ", b.to_string(),
                            attrs.transpose_b ? " transposed" : ""));
  }
  Shape out = broadcast_shape("matmul", batch_of(a), batch_of(b));
  out.push_back(attrs.transpose_a ? a[-1] : a[-2]);
  out.push_back(attrs.transpose_b ? b[-2] : b[-1]);
  return {{out, inputs[0].dtype}};
}

std::vector<OpSample> matmul_samples() {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& a, const Shape& b, bool ta, bool tb) {
    samples.push_back({name, {{a}, {b}}, MatmulAttrs{ta, tb}});
  };
  sample("plain", {5, 7}, {7, 3}, false, false);
  sample("a transposed", {7, 5}, {7, 3}, true, false);
  sample("b transposed", {5, 7}, {3, 7}, false, true);
  sample("both transposed", {7, 5}, {3, 7}, true, true);
  sample("batched", {4, 5, 7}, {4, 7, 3}, false, false);
  sample("batch broadcast", {2, 1, 5, 7}, {3, 7, 4}, false, false);
  sample("one matrix for all", {6, 5, 7}, {7, 4}, false, false);
  sample("large", {150, 130}, {130, 170}, false, false);
  return samples;
}

double matmul_flops(std::span<const TensorSpec> inputs, const Attrs& any) {
  const MatmulShape s(inputs[0].shape, inputs[1].shape, any.as<MatmulAttrs>());
  return 2.0 * static_cast<double>(s.matrices()) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

}  // namespace

MatmulShape::MatmulShape(const Shape& a, const Shape& b, const MatmulAttrs& attrs)
    : batch(broadcast_shape("matmul", batch_of(a), batch_of(b))),
      m(attrs.transpose_a ? a[-1] : a[-2]),
      n(attrs.transpose_b ? b[-2] : b[-1]),
      k(attrs.transpose_a ? a[-2] : a[-1]) {
  auto matrix_of = [&](const Shape& operand, int64_t index) {
    const Shape own = batch_of(operand);
    int64_t matrix = 0;
    int64_t stride = 1;
    for (int i = 1; i <= batch.rank(); ++i) {
      const int64_t at = index % batch[-i];
      index /= batch[-i];
      if (i > own.rank()) break;
      if (own[-i] != 1) matrix += at * stride;
      stride *= own[-i];
    }
    return matrix;
  };
  for (int64_t i = 0; i < batch.elements(); ++i) {
    a_matrix.push_back(matrix_of(a, i));
    b_matrix.push_back(matrix_of(b, i));
  }
}

extern const OpRecord matmul_op;
const OpRecord matmul_op = {
    .name = "matmul",
    .attr_form = &attr_form<MatmulAttrs>,
    .input_count = {2, 2},
    .infer = matmul_rule,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .samples = matmul_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"square", {{{2048, 2048}}, {{2048, 2048}}}, MatmulAttrs{}},
                                       {"batch", {{{96, 512, 64}}, {{96, 64, 512}}}, MatmulAttrs{}}};
        },
    .f32 = {1e-5, 2e-5, "sums of up to 170 products of size 1"},
    .bf16 = {2e-2, 5e-2, "sums are in f32, the result of size up to 10 is rounded to 8 bits"},
    .f16 = {2.5e-3, 6e-3, "sums are in f32, the result of size up to 10 is rounded to 11 bits"},
    .flops = matmul_flops,
};

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return apply_one(matmul_op, {a, b}, MatmulAttrs{transpose_a, transpose_b});
}

// linear: y = activation(x W^T + bias). x [..,in], weight [out,in] (PyTorch's), bias [out] or absent. Hidden
// output, with gelu: x W^T + bias.

namespace {

std::vector<TensorSpec> linear_rule(std::span<const TensorSpec> inputs, std::span<const bool> defined,
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

std::vector<OpSample> linear_samples() {
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

double linear_flops(std::span<const TensorSpec> inputs, const Attrs&) {
  return 2.0 * static_cast<double>(inputs[0].shape.elements()) * static_cast<double>(inputs[1].shape[0]);
}

}  // namespace

extern const OpRecord linear_op;
const OpRecord linear_op = {
    .name = "linear",
    .attr_form = &attr_form<LinearAttrs>,
    .input_count = {2, 3},
    .infer = linear_rule,
    .save_inputs = bit(0) | bit(1),
    .autocast = Autocast::kLow,
    .batch_inputs = bit(0),
    .fused = fused_op<LinearAttrs>,
    .samples = linear_samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"with bias", {{{4096, 1024}}, {{4096, 1024}}, {{4096}}}, LinearAttrs{}},
              {"tokens", {{{8, 1024, 768}}, {{3072, 768}}, {{3072}}}, LinearAttrs{Activation::kGelu}}};
        },
    .f32 = {1e-5, 2e-5, "sums of up to 200 products of size 1"},
    .bf16 = {2e-2, 5e-2, "sums are in f32, the result of size up to 10 is rounded to 8 bits"},
    .f16 = {2.5e-3, 6e-3, "sums are in f32, the result of size up to 10 is rounded to 11 bits"},
    .flops = linear_flops,
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
