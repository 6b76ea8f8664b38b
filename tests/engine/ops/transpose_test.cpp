#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(TransposeOp, ViewsThenOpsSeeTheNewOrder) {
  const Tensor x = Tensor::from<float>(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor y = transpose(x, {1, 0});
  EXPECT_EQ(y.raw(), x.raw());
  EXPECT_EQ(relu(y).to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(TransposeOp, RefusesWhatIsNoPermutation) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(transpose(x, {0, 0}), Error);
  EXPECT_THROW(transpose(x, {0}), Error);
  EXPECT_THROW(transpose(x, {0, 2}), Error);
}

}  // namespace dlpipe::engine
