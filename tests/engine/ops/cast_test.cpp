#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(CastOp, RoundsToF16AsFloat16Does) {
  const std::vector<float> values = {0.1f, -65519.0f, 65520.0f, 1e-7f, NAN};
  const Tensor half = cast(Tensor::from<float>(values, {5}), DType::kF16);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(half.data<Float16>()[i].bits, Float16(values[i]).bits) << values[i];
  const Tensor low = cast(half, DType::kBF16);  // through f32
  EXPECT_EQ(low.data<BFloat16>()[0].bits, BFloat16(static_cast<float>(Float16(0.1f))).bits);
}

// The plain conversions of dlpipe/dtype.h judge the vector ones.
TEST(CastOp, RoundsToBf16AsBFloat16Does) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               1.00390625f,
                               1.01171875f,
                               3.4e38f,
                               1e-40f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  for (int i = 0; i < 1000; ++i)
    values.push_back(std::ldexp(static_cast<float>(i * 7919 % 1000) / 999 - 0.5f, i % 40 - 20));
  const Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  const Tensor low = cast(x, DType::kBF16);
  const Tensor back = cast(low, DType::kF32);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(low.data<BFloat16>()[i].bits, BFloat16(values[i]).bits) << values[i];
    EXPECT_EQ(std::isnan(back.data<float>()[i]), std::isnan(values[i]));
    if (std::isnan(values[i])) continue;
    EXPECT_EQ(back.data<float>()[i], static_cast<float>(BFloat16(values[i])));
  }
}

TEST(CastOp, ConvertsBytesAndIntegers) {
  const Tensor bytes = Tensor::from<uint8_t>(std::vector<uint8_t>{0, 7, 255}, {3});
  EXPECT_EQ(cast(bytes, DType::kF32).to_doubles(), (std::vector<double>{0, 7, 255}));
  EXPECT_EQ(cast(cast(bytes, DType::kBF16), DType::kI64).to_doubles(), (std::vector<double>{0, 7, 255}));
}

TEST(CastOp, GivesTheNearestIntegerThatThereIs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {
      1.9f, -1.9f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e19f};
  const Tensor x = Tensor::from<float>(values, {6});
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  const Tensor integers = cast(x, DType::kI64);
  const auto* wide = integers.data<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(wide, wide + 6), (std::vector<int64_t>{1, -1, kMost, kLeast, 0, kMost}));
  EXPECT_EQ(cast(x, DType::kI32).to_doubles(),
            (std::vector<double>{1, -1, 2147483647, -2147483648, 0, 2147483647}));
  EXPECT_EQ(cast(x, DType::kU8).to_doubles(), (std::vector<double>{1, 0, 255, 0, 0, 255}));
}

TEST(CastOp, GradientComesBackInTheInputsDtype) {
  Tensor x = Tensor::full({3}, 1.5);
  x.set_requires_grad(true);
  cast(x, DType::kBF16).backward(Tensor::full({3}, 2.0, DType::kBF16));
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{2, 2, 2}));
}

}  // namespace dlpipe::engine
