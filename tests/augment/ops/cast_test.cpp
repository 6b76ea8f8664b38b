#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(Cast, SetsTheElementTypeOfTheInput) {
  BatchPrep prep;
  EXPECT_EQ(prep.dtype, DType::kF32);
  ASSERT_TRUE(parse_or_die("cast(bf16)").fill_prep(prep).ok());
  EXPECT_EQ(prep.dtype, DType::kBF16);
  ASSERT_TRUE(parse_or_die("cast(f16)").fill_prep(prep).ok());
  EXPECT_EQ(prep.dtype, DType::kF16);
  ASSERT_TRUE(parse_or_die("cast(f64)").fill_prep(prep).ok());
  EXPECT_EQ(prep.dtype, DType::kF64);
}

TEST(Cast, RefusesTypesThatAreNotFloatingPoint) {
  EXPECT_NE(parse_error("cast(u8)").find("dtype must be a floating-point type, got 'u8'"), std::string::npos);
  EXPECT_NE(parse_error("cast(bf17)").find("did you mean 'bf16'?"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
