// Formulas whose answers to bf16 are kept in a table: those of the formula itself, for every bf16 that there is.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kAll = 1 << 16;

Tensor every_bf16() {
  Tensor x = Tensor::empty({kAll}, DType::kBF16);
  for (int64_t i = 0; i < kAll; ++i) x.data<BFloat16>()[i].bits = static_cast<uint16_t>(i);
  return x;
}

TEST(Bf16Table, HoldsTheFormulasAnswersToAll) {
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> ops = {
      {"gelu", gelu}, {"silu", silu}, {"sigmoid", sigmoid}, {"tanh", tanh},
      {"exp", exp},   {"log", log},   {"erf", erf}};
  const Tensor x = every_bf16();
  for (const auto& [name, op] : ops) {
    const Tensor got = op(x), expected = cast(op(cast(x, DType::kF32)), DType::kBF16);
    ASSERT_EQ(got.dtype(), DType::kBF16) << name;
    EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), got.size_bytes()), 0) << name;
  }
}

TEST(Bf16Table, InPlaceToo) {
  const Tensor x = Tensor::from<float>(std::vector<float>{-1, 0.5, 2}, {1, 3});
  const Tensor weight = Tensor::from<float>(std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  const Tensor low = cast(x, DType::kBF16);
  const NoGrad no_grad;
  const Tensor y = linear(low, cast(weight, DType::kBF16), {}, Activation::kGelu);
  const Tensor expected = gelu(low);
  EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.size_bytes()), 0);
}

}  // namespace
}  // namespace dlpipe::engine
