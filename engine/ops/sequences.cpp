// Ops on sequences of tokens: embedding and self_attention.
#include "engine/ops/sequences.h"

#include <cmath>

#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/records.h"

namespace dlpipe::engine {

// embedding: looks up rows of a table. table [V,D], ids i64 [..] -> [..,D]. Rows that no id refers to have
// gradient 0.

namespace {

std::vector<TensorSpec> embedding_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                       const Attrs&) {
  expect_inputs("embedding", inputs, 2, 2);
  expect_floating("embedding", inputs[0], "table");
  expect_rank("embedding", inputs[0], 2, "a table [V,D]");
  expect_dtype("embedding", inputs[1], DType::kI64, "ids");
  if (inputs[1].shape.rank() == Shape::kMaxRank) {
    reject("embedding", concat("ids of ", inputs[1].shape.to_string(), " leave no axis for the rows"));
  }
  Shape shape = inputs[1].shape;
  shape.push_back(inputs[0].shape[1]);
  return {{shape, inputs[0].dtype}};
}

std::vector<OpSample> embedding_samples() {
  std::vector<OpSample> samples = {{"sequence", {{{11, 6}}, {{2, 5}, DType::kI64}}, Attrs{}},
                                   {"one id", {{{3, 4}}, {{}, DType::kI64}}, Attrs{}},
                                   {"many repeats", {{{7, 150}}, {{900}, DType::kI64}}, Attrs{}}};
  samples[0].int_high = 11;
  samples[1].int_high = 3;
  samples[2].int_high = 6;  // row 6 is never looked up
  return samples;
}

}  // namespace

void check_ids(const Tensor& ids, int64_t rows) {
  const int64_t* id = ids.data<int64_t>();
  for (int64_t i = 0; i < ids.elements(); ++i) {
    if (id[i] < 0 || id[i] >= rows) {
      reject("embedding", concat("id ", id[i], " at position ", i, " is not a row of a table of ", rows));
    }
  }
}

extern const OpRecord embedding_op;
const OpRecord embedding_op = {
    .name = "embedding",
    .input_count = {2, 2},
    .infer = embedding_rule,
    .save_inputs = bit(1),
    .differentiable = bit(0),
    .batch_inputs = bit(1),
    .samples = embedding_samples,
    .bench =
        [] {
          return std::vector<OpSample>{
              {"long table", {{{50257, 768}}, {{16, 512}, DType::kI64}}, Attrs{}, -1, 1, 50257}};
        },
    .f32 = {1e-4, 1e-4, "a row's gradient is the sum of up to 200 terms"},
    .bf16 = {2e-2, 2e-1, "a row's gradient is the sum of up to 200 terms, rounded to 8 bits once"},
    .f16 = {2.5e-3, 2.5e-2, "a row's gradient is the sum of up to 200 terms, rounded to 11 bits once"},
    .flops = [](std::span<const TensorSpec>, const Attrs&) { return 0.0; },
};

Tensor embedding(const Tensor& table, const Tensor& ids) {
  return apply_one(embedding_op, {table, ids});
}

// self_attention: softmax(Q K^T / sqrt(D)) V for each head of each sequence (Vaswani et al., "Attention is
// all you need", 2017, equation 1). The logarithm of each row's softmax sum is a hidden output, kept for
// backward, instead of a T x T matrix.

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

std::vector<TensorSpec> self_attention_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
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

std::vector<OpSample> self_attention_samples() {
  return {{"one head", {{{2, 5, 12}}}, AttentionAttrs{1, false}, -2, 2},
          {"causal", {{{2, 7, 48}}}, AttentionAttrs{2, true}, -2, 2},
          {"one position", {{{3, 1, 24}}}, AttentionAttrs{4, true}, -2, 2},
          {"several blocks", {{{1, 150, 30}}}, AttentionAttrs{2, false}, -2, 2},
          {"several blocks, causal", {{{1, 131, 51}}}, AttentionAttrs{1, true}, -2, 2}};
}

double self_attention_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return attention_flops(inputs[0].shape, attrs.as<AttentionAttrs>());
}

}  // namespace

extern const OpRecord self_attention_op;
const OpRecord self_attention_op = {
    .name = "self_attention",
    .attr_form = &attr_form<AttentionAttrs>,
    .infer = self_attention_rule,
    .save_inputs = bit(0),
    .save_outputs = bit(0) | bit(1),
    .batch_inputs = bit(0),
    .samples = self_attention_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"12 heads", {{{8, 512, 3 * 768}}}, AttentionAttrs{12, true}}};
        },
    .bf16 = {3e-2, 3e-2, "queries, keys, values and outputs are rounded to 8 bits; sums are f32"},
    .f16 = {4e-3, 4e-3, "queries, keys, values and outputs are rounded to 11 bits; sums are f32"},
    .flops = self_attention_flops,
};

Tensor self_attention(const Tensor& qkv, int heads, bool causal) {
  return apply_one(self_attention_op, {qkv}, AttentionAttrs{heads, causal});
}

}  // namespace dlpipe::engine
