#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"

namespace dlpipe::engine {
namespace {

Tensor noise(const Shape& shape, double scale) {
  RandomStream random(5, 1);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(scale * (random.uniform_double() * 2 - 1));
  return Tensor::from<float>(values, shape);
}

// The same by ops that keep the whole matrix of weights.
Tensor composed(const Tensor& qkv, int64_t heads) {
  const int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3 / heads;
  const auto part = [&](int64_t i) {
    const Tensor x = slice(qkv, 2, i * heads * width, (i + 1) * heads * width);
    return transpose(reshape(x, {batch, length, heads, width}), {0, 2, 1, 3});
  };
  const Tensor scores =
      scale(matmul(part(0), part(1), false, true), 1.0 / std::sqrt(static_cast<double>(width)));
  const Tensor out = matmul(softmax(scores), part(2));
  return reshape(transpose(out, {0, 2, 1, 3}), {batch, length, heads * width});
}

TEST(SelfAttentionOp, EqualsItsComposition) {
  // More keys than a block and queries than a slice has.
  const Tensor seed = noise({2, 600, 64}, 1);
  const auto gradient = [&](auto attention) {
    Tensor x = noise({2, 600, 192}, 3).set_requires_grad(true);
    const Tensor y = attention(x);
    y.backward(seed);
    return std::pair(y.to_doubles(), x.grad().to_doubles());
  };
  const auto fused = gradient([](const Tensor& x) { return self_attention(x, 2, false); });
  const auto plain = gradient([](const Tensor& x) { return composed(x, 2); });
  for (size_t i = 0; i < plain.first.size(); ++i) ASSERT_NEAR(fused.first[i], plain.first[i], 1e-5) << i;
  for (size_t i = 0; i < plain.second.size(); ++i) ASSERT_NEAR(fused.second[i], plain.second[i], 2e-5) << i;
}

TEST(SelfAttentionOp, CausalPositionsDoNotSeeLaterOnes) {
  const Tensor x = noise({1, 70, 48}, 2);
  const std::vector<double> before = self_attention(x, 2, true).to_doubles();
  for (int64_t i = 50 * 48; i < 70 * 48; ++i) x.data<float>()[i] = 1e3f;
  const std::vector<double> after = self_attention(x, 2, true).to_doubles();
  for (size_t i = 0; i < 50 * 16; ++i) EXPECT_EQ(after[i], before[i]) << i;
  EXPECT_NE(after[50 * 16], before[50 * 16]);
}

// By dot products of pairs where the CPU has them, whose weights are rounded to 8 bits; odd widths and long sequences are not.
TEST(SelfAttentionOp, InBf16EqualsF32OfTheSameNumbers) {
  struct Case {
    int64_t length, heads, width;
  };
  for (const Case& c :
       {Case{1, 1, 2}, {7, 2, 16}, {48, 1, 64}, {197, 2, 64}, {50, 3, 10}, {33, 2, 3}, {1030, 1, 8}}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << c.length << " of " << c.heads << " x " << c.width << (causal ? ", causal" : ""));
      const Tensor low = cast(noise({2, c.length, 3 * c.heads * c.width}, 1), DType::kBF16);
      const std::vector<double> exact = self_attention(cast(low, DType::kF32), c.heads, causal).to_doubles();
      const std::vector<double> got = self_attention(low, c.heads, causal).to_doubles();
      // Values are at most 1: half a step of bf16 for the answer, as much for the weights.
      for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(got[i], exact[i], 1.0 / 128) << i;
    }
  }
}

TEST(SelfAttentionOp, LargeScoresDoNotOverflow) {
  // The second key wins by far for every query; the running maximum grows from block to block.
  const int64_t length = 300;
  const Tensor x = Tensor::zeros({1, length, 3});
  for (int64_t t = 0; t < length; ++t) {
    float* const row = x.data<float>() + 3 * t;
    row[0] = 1e3f, row[1] = static_cast<float>(t), row[2] = static_cast<float>(t % 7);
  }
  for (double value : self_attention(x, 1, false).to_doubles()) EXPECT_EQ(value, (length - 1) % 7);
}

TEST(SelfAttentionOp, KeepsNoMatrixOfAllPairs) {
  const int64_t length = 2048;
  Tensor x = noise({1, length, 48}, 1).set_requires_grad(true);
  const size_t before = allocator_statistics().used_bytes;
  const Tensor y = self_attention(x, 1, true);
  EXPECT_LT(allocator_statistics().used_bytes - before, static_cast<size_t>(length * 64 * 4));
  y.backward(Tensor::full(y.shape(), 1.0));
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(SelfAttentionOp, SaysWhatIsWrongWithItsInputs) {
  const auto error = [](const Tensor& x, int heads) -> std::string {
    try {
      self_attention(x, heads, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_NE(error(Tensor::zeros({2, 5, 10}), 2).find("[B,T,3*H*D] of 2 heads"), std::string::npos);
  EXPECT_NE(error(Tensor::zeros({5, 12}), 2).find("[B,T,3*H*D]"), std::string::npos);
  EXPECT_NE(error(Tensor::zeros({2, 5, 12}), 0).find("at least one head"), std::string::npos);
}

TEST(SelfAttentionOp, AnEmptyBatchIsEmpty) {
  Tensor x = Tensor::zeros({0, 5, 12}).set_requires_grad(true);
  const Tensor y = self_attention(x, 2, false);
  EXPECT_EQ(y.shape(), (Shape{0, 5, 4}));
  y.backward(Tensor::zeros(y.shape()));
  EXPECT_EQ(x.grad().shape(), x.shape());
}

}  // namespace
}  // namespace dlpipe::engine
