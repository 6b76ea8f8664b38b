// self_attention: softmax(Q K^T / sqrt(D)) V for each head of each sequence (Vaswani et al., "Attention is
// all you need", 2017, equation 1). The logarithm of each row's softmax sum is a hidden output, kept for
// backward: no T x T matrix is.
#include <cmath>

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

AttentionShape::AttentionShape(const Shape& qkv, const AttentionAttrs& attrs)
    : batch(qkv[0]),
      length(qkv[1]),
      heads(attrs.heads),
      width(qkv[2] / 3 / attrs.heads),
      scale(1.0 / std::sqrt(static_cast<double>(width))) {}

double attention_flops(const Shape& qkv, const AttentionAttrs& attrs) {
  const AttentionShape s(qkv, attrs);
  const double pairs = static_cast<double>(s.batch * s.heads * s.length) * static_cast<double>(s.length) *
                       (attrs.causal ? 0.5 : 1.0);
  return 4.0 * pairs * static_cast<double>(s.width);
}

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>,
                              const Attrs& any_attrs) {
  constexpr const char* kOp = "self_attention";
  const auto& attrs = any_attrs.as<AttentionAttrs>();
  expect_inputs(kOp, inputs, 1, 1);
  expect_floating(kOp, inputs[0], "qkv");
  const Shape& shape = inputs[0].shape;
  if (attrs.heads < 1) reject(kOp, concat("expected at least one head, got ", attrs.heads));
  if (shape.rank() != 3 || shape[2] < 1 || shape[2] % (int64_t{3} * attrs.heads) != 0) {
    reject(kOp, concat("expected queries, keys and values [B,T,3*H*D] of ", attrs.heads, " heads, got ",
                       shape.to_string()));
  }
  return {{{shape[0], shape[1], shape[2] / 3}, inputs[0].dtype},
          {{shape[0], attrs.heads, shape[1]}, inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32}};
}

std::vector<OpSample> samples() {
  return {{"one head", {{{2, 5, 12}}}, AttentionAttrs{1, false}, -2, 2},
          {"causal", {{{2, 7, 48}}}, AttentionAttrs{2, true}, -2, 2},
          {"one position", {{{3, 1, 24}}}, AttentionAttrs{4, true}, -2, 2},
          {"several blocks", {{{1, 150, 30}}}, AttentionAttrs{2, false}, -2, 2},
          {"several blocks, causal", {{{1, 131, 51}}}, AttentionAttrs{1, true}, -2, 2}};
}

double flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return attention_flops(inputs[0].shape, attrs.as<AttentionAttrs>());
}

}  // namespace

extern const OpRecord self_attention_op;
const OpRecord self_attention_op = {
    .name = "self_attention",
    .attr_form = &attr_form<AttentionAttrs>,
    .infer = infer,
    .save_inputs = bit(0),
    .save_outputs = bit(0) | bit(1),
    .batch_inputs = bit(0),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"12 heads", {{{8, 512, 3 * 768}}}, AttentionAttrs{12, true}}};
        },
    .bf16 = {3e-2, 3e-2, "queries, keys, values and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "queries, keys, values and outputs are rounded to 11 bits; sums are f32"},
    .flops = flops,
};

Tensor self_attention(const Tensor& qkv, int heads, bool causal) {
  return apply_one(self_attention_op, {qkv}, AttentionAttrs{heads, causal});
}

}  // namespace dlpipe::engine
