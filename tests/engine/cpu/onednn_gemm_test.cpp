#include "engine/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"

namespace dlpipe::engine::cpu {
namespace {

Tensor noise_matrix(int64_t rows, int64_t columns, uint64_t key) {
  RandomStream random(20261126, key);
  Tensor matrix = Tensor::empty({rows, columns});
  for (int64_t i = 0; i < matrix.elements(); ++i)
    matrix.data<float>()[i] = static_cast<float>(random.uniform_double() * 2 - 1);
  return matrix;
}

struct Sizes {
  int64_t m, n, k;
};

/// c = a b^T, or a b, plus bias.
Tensor product(const Sizes& s, const Tensor& a, const Tensor& b, bool transposed, const Tensor& bias) {
  Tensor c = Tensor::empty({s.m, s.n}, a.dtype());
  std::atomic<int64_t> done{0};
  onednn_gemm(s.m, s.n, s.k, {a.raw()}, {b.raw(), transposed, &b}, bias.raw(), c.raw(), a.dtype(),
              [&](int64_t, int64_t rows, int64_t, int64_t columns) { done += rows * columns; });
  EXPECT_EQ(done, s.m * s.n);
  return c;
}

void expect_same_bits(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.size_bytes()), 0);
}

// 300 columns are cut in slices of 160 and 140; 128 rows are the fewest that b is packed for.
TEST(OnednnGemm, PackedWeightsGiveTheProductKeptOrMadeEachTime) {
  for (const Sizes& s : {Sizes{128, 300, 257}, {197, 512, 1100}, {130, 64, 8}, {100, 300, 257}}) {
    for (const bool transposed : {false, true}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        if (dtype == DType::kBF16 && !has_bf16_gemm()) continue;
        SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << "x" << s.k << (transposed ? " t" : " n")
                                        << ", " << static_cast<int>(dtype));
        const Tensor a = cast(noise_matrix(s.m, s.k, 1), dtype);
        const Tensor b = cast(transposed ? noise_matrix(s.n, s.k, 2) : noise_matrix(s.k, s.n, 2), dtype);
        const Tensor bias = cast(noise_matrix(1, s.n, 3), dtype);
        const Tensor plain = product(s, a, b, transposed, bias);
        const InferenceMode mode;
        const Tensor each_time = product(s, a, b, transposed, bias);
        ConstantCache cache;
        cache.add_constant(b);
        const UseConstantCache use(&cache);
        const Tensor made = product(s, a, b, transposed, bias);
        expect_same_bits(made, each_time);
        expect_same_bits(product(s, a, b, transposed, bias), each_time);
        const Tensor expected = cast(plain, DType::kF32), got = cast(made, DType::kF32);
        for (int64_t i = 0; i < s.m * s.n; ++i) {
          // bf16 rounds to 8 bits at the end
          const float tolerance =
              dtype == DType::kF32 ? 1e-4f : 1e-4f + std::abs(expected.data<float>()[i]) / 64;
          ASSERT_NEAR(got.data<float>()[i], expected.data<float>()[i], tolerance) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine::cpu
