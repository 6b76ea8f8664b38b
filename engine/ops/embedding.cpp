// embedding: rows of a table by number. table [V,D], ids i64 [..] -> [..,D]. A row that no id names gets
// gradient 0.
#include "dlpipe/engine/ops/embedding.h"

#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
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

std::vector<OpSample> samples() {
  std::vector<OpSample> samples = {{"sequence", {{{11, 6}}, {{2, 5}, DType::kI64}}, Attrs{}},
                                   {"one id", {{{3, 4}}, {{}, DType::kI64}}, Attrs{}},
                                   {"many repeats", {{{7, 150}}, {{900}, DType::kI64}}, Attrs{}}};
  samples[0].int_high = 11;
  samples[1].int_high = 3;
  samples[2].int_high = 6;  // row 6 is never named
  return samples;
}

}  // namespace

void check_ids(const Tensor& ids, int64_t rows) {
  const int64_t* id = ids.data<int64_t>();
  for (int64_t i = 0; i < ids.elements(); ++i) {
    if (id[i] < 0 || id[i] >= rows) {
      reject("embedding", concat("id ", id[i], " at place ", i, " is not a row of a table of ", rows));
    }
  }
}

extern const OpRecord embedding_op;
const OpRecord embedding_op = {
    .name = "embedding",
    .input_count = {2, 2},
    .infer = infer,
    .save_inputs = bit(1),
    .differentiable = bit(0),
    .batch_inputs = bit(1),
    .samples = samples,
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

}  // namespace dlpipe::engine
