// What cublasLt is told about a product, checked by doing as told over host memory; and plans' keys.
#include "engine/cuda/gemm/gemm.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace dlpipe::engine::cuda {
namespace {

std::vector<float> whole_numbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7 + seed * 5) % 9 - 4));
  return values;
}

/// Element (i, j) of a matrix of the batch as the library multiplies it.
float at(const LtMatrix& matrix, const void* data, int64_t batch, int64_t i, int64_t j) {
  if (matrix.transposed) std::swap(i, j);
  EXPECT_LT(i, matrix.rows);
  EXPECT_LT(j, matrix.columns);
  return static_cast<const float*>(data)[batch * matrix.stride + i + j * matrix.leading];
}

/// cublasLtMatmul as its documentation has it, with the epilogue's vector.
void multiply_as_told(const GemmProblem& p) {
  const LtOperands of = operands_of(p);
  const int64_t terms = of.left.transposed ? of.left.rows : of.left.columns;
  EXPECT_EQ(terms, p.k);
  EXPECT_GE(of.result.leading, of.result.rows);
  auto* const vector = static_cast<float*>(p.vector);
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t j = 0; j < of.result.columns; ++j) {
      float sums = 0;  // BGRADB: over k of the right matrix's column
      for (int64_t l = 0; l < terms; ++l) sums += at(of.right, p.a.data, batch, l, j);
      if (p.epilogue == GemmEpilogue::kSumsOfA) vector[j] = sums;
      for (int64_t i = 0; i < of.result.rows; ++i) {
        float& to = static_cast<float*>(p.c.data)[batch * of.result.stride + i + j * of.result.leading];
        float sum = p.c.accumulate ? to : 0.0f;
        for (int64_t l = 0; l < terms; ++l)
          sum += at(of.left, p.b.data, batch, i, l) * at(of.right, p.a.data, batch, l, j);
        to = p.epilogue == GemmEpilogue::kBias ? sum + vector[i] : sum;  // BIAS: one per row of the result
      }
    }
  }
}

TEST(GemmPlan, OperandsGiveTheProduct) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t gap : {0, 3}) {
        for (const int64_t batch : {1, 3}) {
          SCOPED_TRACE(testing::Message() << transpose_a << transpose_b << " " << gap << " " << batch);
          const int64_t m = 5, n = 4, k = 7;
          const auto place = [&](int64_t rows, int64_t columns, bool turned) {
            return GemmMatrix{nullptr, (turned ? rows : columns) + gap, turned, 100};
          };
          const std::vector<float> a = whole_numbers(400, 1), b = whole_numbers(400, 2);
          std::vector<float> expected = whole_numbers(400, 3), got = expected;
          GemmProblem p{m, n, k, place(m, k, transpose_a), place(k, n, transpose_b)};
          p.a.data = a.data();
          p.b.data = b.data();
          p.batch = batch;
          p.c = {got.data(), n + gap, 100, DType::kF32, gap > 0};
          multiply_as_told(p);
          GemmResult c = p.c;
          c.data = expected.data();
          gemm(m, n, k, p.a, p.b, c, DType::kF32, batch);
          EXPECT_EQ(got, expected);
        }
      }
    }
  }
}

TEST(GemmPlan, EpiloguesAreLinears) {
  const int64_t rows = 6, in = 5, out = 3;
  const std::vector<float> x = whole_numbers(rows * in, 1), weight = whole_numbers(out * in, 2),
                           grad = whole_numbers(rows * out, 4);
  std::vector<float> bias = whole_numbers(out, 3), y(rows * out), grad_weight(out * in), grad_bias(out);
  GemmProblem forward{rows, out, in, {x.data(), in}, {weight.data(), in, true}, {y.data(), out}};
  forward.epilogue = GemmEpilogue::kBias;
  forward.vector = bias.data();
  multiply_as_told(forward);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      float sum = bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < in; ++i)
        sum += x[static_cast<size_t>(r * in + i)] * weight[static_cast<size_t>(o * in + i)];
      EXPECT_EQ(y[static_cast<size_t>(r * out + o)], sum);
    }
  }
  GemmProblem backward{out, in, rows, {grad.data(), out, true}, {x.data(), in}, {grad_weight.data(), in}};
  backward.epilogue = GemmEpilogue::kSumsOfA;
  backward.vector = grad_bias.data();
  multiply_as_told(backward);
  for (int64_t o = 0; o < out; ++o) {
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += grad[static_cast<size_t>(r * out + o)];
    EXPECT_EQ(grad_bias[static_cast<size_t>(o)], sum);
  }
}

TEST(GemmPlan, KeysDifferInAllThatAPlanDependsOn) {
  alignas(32) std::byte memory[64];
  const GemmProblem base{8, 8, 8, {memory, 8}, {memory, 8}, {memory, 8}};
  const std::vector<std::function<void(GemmProblem&)>> changes = {
      [](GemmProblem& p) { p.m = 4; },
      [](GemmProblem& p) { p.n = 4; },
      [](GemmProblem& p) { p.k = 4; },
      [](GemmProblem& p) { p.batch = 2; },
      [](GemmProblem& p) { p.dtype = DType::kBF16; },
      [](GemmProblem& p) { p.c.dtype = DType::kBF16; },
      [](GemmProblem& p) { p.c.accumulate = true; },
      [](GemmProblem& p) { p.tf32 = true; },
      [](GemmProblem& p) { p.a.transposed = true; },
      [](GemmProblem& p) { p.b.transposed = true; },
      [](GemmProblem& p) { p.a.row = 9; },
      [](GemmProblem& p) { p.b.row = 9; },
      [](GemmProblem& p) { p.c.row = 9; },
      [](GemmProblem& p) { p.a.stride = 64; },
      [](GemmProblem& p) { p.b.stride = 64; },
      [](GemmProblem& p) { p.c.stride = 64; },
      [](GemmProblem& p) { p.epilogue = GemmEpilogue::kBias; },
      [](GemmProblem& p) { p.epilogue = GemmEpilogue::kSumsOfA; },
      [](GemmProblem& p) { p.a.data = static_cast<const std::byte*>(p.a.data) + 4; },
  };
  std::vector<GemmKey> keys = {key_of(base)};
  for (const auto& change : changes) {
    GemmProblem p = base;
    change(p);
    keys.push_back(key_of(p));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(keys[i], keys[k]) << i << " " << k;
  }
  GemmProblem moved = base;  // by whole packs
  moved.a.data = memory + 16;
  moved.c.data = memory + 32;
  EXPECT_EQ(key_of(moved), key_of(base));
}

}  // namespace
}  // namespace dlpipe::engine::cuda
