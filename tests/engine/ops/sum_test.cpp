#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(SumOp, CountsNegativeAxesFromTheEnd) {
  const Tensor x = Tensor::full({2, 3, 4}, 1.0);
  EXPECT_EQ(sum(x, {-1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(sum(x, {0, -1}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sum(x).item(), 24);
  EXPECT_THROW(sum(x, {3}), Error);
}

TEST(MeanOp, OfNothingIsNoNumber) {
  for (const double value : mean(Tensor::zeros({0, 3}), {0}).to_doubles()) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(mean(Tensor::zeros({0})).item()));
  EXPECT_EQ(mean(Tensor::zeros({0, 3}), {1}).shape(), (Shape{0}));
}

TEST(SumOp, OfNothingIsZero) {
  EXPECT_EQ(sum(Tensor::zeros({0, 3}), {0}).to_doubles(), (std::vector<double>{0, 0, 0}));
}

}  // namespace dlpipe::engine
