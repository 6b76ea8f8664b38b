#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/core/parallel.h"

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

/// Different every time.
Tensor noise(const Shape& shape, uint64_t key) {
  RandomStream random(20261128, key);
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = random.uniform() - 0.5F;
  return tensor;
}

// Each product is one thread's, whichever has time for it: none may take kernels of its own.
TEST(MatmulOp, ManyProductsOfOneRowAreTheSameBitsOnAnyNumberOfThreads) {
  const Tensor a = noise({128, 1, 256}, 1), turned = noise({128, 256, 256}, 2);
  const auto answers = [&](int threads) {
    set_engine_threads(threads);
    std::vector<std::vector<double>> all;
    {
      const NoGrad no_grad;
      all.push_back(matmul(a, turned, false, true).to_doubles());
    }
    {
      const InferenceMode mode;
      all.push_back(matmul(a, turned, false, true).to_doubles());
    }
    Tensor x = a.clone().set_requires_grad(true);
    matmul(x, turned).backward(a);  // by rows that lie turned
    all.push_back(x.grad().to_doubles());
    return all;
  };
  const int former = engine_threads();
  const auto one = answers(1), four = answers(4);
  set_engine_threads(former);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], four[i]) << i;
}

}  // namespace dlpipe::engine
