#include <gtest/gtest.h>

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

TEST(MatmulOp, NamesTheSizesThatDoNotFit) {
  try {
    matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5}));
    FAIL() << "3 and 4 were multiplied";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[matmul] expected equal inner sizes, got 3 of [2,3] and 4 of [4,5]");
  }
  EXPECT_THROW(matmul(Tensor::zeros({3}), Tensor::zeros({3, 5})), Error);
}

// 256 + 1 is 256 in bf16: a sum of that type would stop there.
TEST(MatmulOp, GradientsOfAStretchedOperandAreAddedInF32) {
  const Tensor x = Tensor::full({1024, 1, 4}, 1.0, DType::kBF16);
  for (const Shape& shape : {Shape{4, 3}, Shape{1, 4, 3}}) {
    Tensor w = Tensor::full(shape, 1.0, DType::kBF16);
    w.set_requires_grad(true);
    sum(matmul(x, w)).backward();
    EXPECT_EQ(w.grad().to_doubles(), std::vector<double>(12, 1024.0)) << shape.to_string();
  }
}

TEST(MatmulOp, OfNoInnerElementsIsZero) {
  const Tensor y = matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 3}));
  EXPECT_EQ(y.to_doubles(), std::vector<double>(6, 0.0));
}

}  // namespace dlpipe::engine
