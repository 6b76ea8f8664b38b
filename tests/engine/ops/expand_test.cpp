#include <gtest/gtest.h>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(ExpandOp, RefusesNegativeSizes) {
  try {
    expand(Tensor::zeros({1, 5}), {-1, 5});
    FAIL() << "one row was expanded to -1";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[expand] expected sizes of at least 0, got [-1,5]");
  }
  EXPECT_EQ(expand(Tensor::zeros({1, 5}), {0, 5}).elements(), 0);
}

}  // namespace dlpipe::engine
