#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(SliceOp, CountsNegativeEndsFromTheEndAndTakesEveryDtype) {
  const Tensor x = Tensor::from<int64_t>(std::vector<int64_t>{0, 1, 2, 3, 4}, {5});
  EXPECT_EQ(slice(x, 0, 1, -1).to_doubles(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(slice(x, -1, 0, 5, 2).to_doubles(), (std::vector<double>{0, 2, 4}));
  EXPECT_THROW(slice(x, 0, 2, 6), Error);
  EXPECT_THROW(slice(x, 0, 0, 5, 0), Error);
}

TEST(SliceOp, TakesStepsOfAnyLength) {
  const Tensor x = Tensor::from<float>(std::vector<float>{0, 1, 2, 3, 4}, {5});
  constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice(x, 0, 1, 5, kLongest).to_doubles(), (std::vector<double>{1}));
  EXPECT_EQ(slice(x, 0, 2, 2, kLongest).elements(), 0);
  EXPECT_EQ(slice(x, 0, 0, 5, 4).to_doubles(), (std::vector<double>{0, 4}));
}

}  // namespace dlpipe::engine
