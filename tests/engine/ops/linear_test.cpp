#include <gtest/gtest.h>

#include "dlpipe/engine/ops.h"
#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(LinearOp, PassesEveryCheckOfItsRecord) {
  check_op("linear");
}

TEST(LinearOp, UnderAutocastComputesInBf16AndGivesTheWeightAnF32Gradient) {
  Tensor x = Tensor::full({4, 8}, 0.5);
  Tensor weight = Tensor::full({3, 8}, 0.25);
  weight.set_requires_grad(true);
  const UseAutocast autocast(DType::kBF16);
  const Tensor y = linear(x, weight, Tensor());
  EXPECT_EQ(y.dtype(), DType::kBF16);
  sum(y).backward();
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().to_doubles(), std::vector<double>(24, 2.0));
}

}  // namespace dlpipe::engine
