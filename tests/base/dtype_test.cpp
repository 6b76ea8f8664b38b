#include "dlpipe/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dlpipe/base/shape.h"

namespace dlpipe {
namespace {

TEST(DType, NamesRoundTripAndTyposAreSuggested) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kU8, DType::kI32, DType::kI64}) {
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
