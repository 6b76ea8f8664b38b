#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(SoftmaxOp, LargeLogitsDoNotOverflow) {
  const Tensor y = softmax(Tensor::from<float>(std::vector<float>{1e4f, 1e4f, -1e4f}, {1, 3}));
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{0.5, 0.5, 0}));
}

TEST(SoftmaxOp, UnderAutocastRunsInF32) {
  const UseAutocast autocast(DType::kBF16);
  EXPECT_EQ(softmax(Tensor::zeros({2, 4}, DType::kBF16)).dtype(), DType::kF32);
}

}  // namespace dlpipe::engine
