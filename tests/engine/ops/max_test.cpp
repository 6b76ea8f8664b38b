#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(MaxOp, GivesTheGradientToTheFirstOfEquals) {
  Tensor x = Tensor::from<float>(std::vector<float>{1, 3, 3, 2}, {1, 4});
  x.set_requires_grad(true);
  const Tensor y = max(x, -1);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{3}));
  y.backward(Tensor::full({1}, 2.0));
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{0, 2, 0, 0}));
}

}  // namespace dlpipe::engine
