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
}

TEST(Cast, RefusesTypesThatNoBatchHas) {
  EXPECT_NE(parse_error("cast(u8)").find("dtype can't be 'u8'; known: f32, bf16, f16"), std::string::npos);
  EXPECT_NE(parse_error("cast(f64)").find("known: f32, bf16, f16"), std::string::npos);
  EXPECT_NE(parse_error("cast(bf17)").find("did you mean 'bf16'?"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
