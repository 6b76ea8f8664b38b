#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

TEST(SliceOp, CountsNegativeEndsFromTheEndAndTakesEveryDtype) {
  const Tensor x = Tensor::from<int64_t>(std::vector<int64_t>{0, 1, 2, 3, 4}, {5});
  EXPECT_EQ(slice(x, 0, 1, -1).to_doubles(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(slice(x, -1, 0, 5, 2).to_doubles(), (std::vector<double>{0, 2, 4}));
  EXPECT_THROW(slice(x, 0, 2, 6), Error);
  EXPECT_THROW(slice(x, 0, 0, 5, 0), Error);
}

}  // namespace dlpipe::engine
