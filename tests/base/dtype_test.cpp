#include "dlpipe/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dlpipe {
namespace {

TEST(DType, NamesRoundTripAndTyposAreSuggested) {
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kBF16, DType::kU8, DType::kI32, DType::kI64, DType::kF16}) {
    EXPECT_EQ(*parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("fp32").status().message(), "[dtype] unknown dtype 'fp32'; did you mean 'f32'?");
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1p-8f)), 1.0f);                // tie to even
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie to even, up
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1.8p-8f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
}

Float16 half_of(uint32_t bits) {
  Float16 half;
  half.bits = static_cast<uint16_t>(bits);
  return half;
}

TEST(Float16, EveryValueIsWhatIeee754SaysAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<float>(half_of(bits));
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    const bool is_nan = exponent == 31 && fraction != 0;
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    ASSERT_EQ(std::signbit(value), bits >> 15 != 0) << bits;
    if (is_nan) {
      ASSERT_TRUE(std::isnan(static_cast<float>(Float16(value)))) << bits;
      continue;
    }
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(std::abs(double{value}), magnitude) << bits;
    ASSERT_EQ(Float16(value).bits, bits);
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {  // infinity's place is taken as 65536 by rounding
    const auto low = static_cast<float>(half_of(bits));
    const float high = bits == 0x7bff ? 65536.0f : static_cast<float>(half_of(bits + 1));
    const float middle = low + (high - low) / 2;
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const uint32_t top = sign < 0 ? 0x8000u : 0u;
      ASSERT_EQ(Float16(sign * middle).bits, top | even) << middle;
      ASSERT_EQ(Float16(sign * std::nextafter(middle, 0.0f)).bits, top | bits) << middle;
      ASSERT_EQ(Float16(sign * std::nextafter(middle, 1e9f)).bits, top | (bits + 1)) << middle;
    }
  }
}

TEST(Float16, TooLargeIsInfinityAndTooSmallIsZero) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float value : {65520.0f, 65536.0f, 1e10f, std::numeric_limits<float>::max(), kInf}) {
    EXPECT_EQ(static_cast<float>(Float16(value)), kInf) << value;
    EXPECT_EQ(static_cast<float>(Float16(-value)), -kInf) << value;
  }
  EXPECT_EQ(static_cast<float>(Float16(std::nextafter(65520.0f, 0.0f))), 65504.0f);
  for (const float value : {0.0f, 0x1p-25f, 1e-30f, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(Float16(value).bits, 0) << value;
    EXPECT_EQ(Float16(-value).bits, 0x8000) << value;
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Shape, CountsIndexesAndPrints) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.to_string(), "[2,3,4]");
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), std::length_error);
}

}  // namespace
}  // namespace dlpipe
