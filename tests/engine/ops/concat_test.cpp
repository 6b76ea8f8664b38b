#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(ConcatOp, BringsMixedFloatsToTheWidestAndNamesWhatDoesNotFit) {
  const Tensor a = Tensor::full({2}, 1.5);
  const Tensor b = Tensor::full({1}, 2.5, DType::kBF16);
  EXPECT_EQ(concat({b, Tensor::full({1}, 1.5, DType::kF16)}, 0).dtype(), DType::kF32);
  EXPECT_EQ(concat({a, b}, 0).dtype(), DType::kF32);
  EXPECT_EQ(concat({a, b}, 0).to_doubles(), (std::vector<double>{1.5, 1.5, 2.5}));
  EXPECT_THROW(concat({a, Tensor::zeros({2, 2})}, 0), Error);
  EXPECT_THROW(concat(std::vector<Tensor>{}, 0), Error);
}

TEST(ConcatOp, OnlyWantedInputsGetGradients) {
  Tensor a = Tensor::full({2}, 1.0);
  a.set_requires_grad(true);
  const Tensor b = Tensor::full({3}, 1.0);
  concat({b, a}, 0).backward(Tensor::from<float>(std::vector<float>{1, 2, 3, 4, 5}, {5}));
  EXPECT_EQ(a.grad().to_doubles(), (std::vector<double>{4, 5}));
}

// Networks that join what convolutions answer (DenseNet, Inception) need no copy into another layout.
TEST(ConcatOp, ImagesInBlocksStayInThem) {
  const auto joined = [](int64_t channels, Layout first, Layout second) {
    const Tensor a = reorder(Tensor::full({1, 4, 4, 64}, 1.5), first);
    const Tensor b = reorder(Tensor::full({1, 4, 4, channels}, 2.5), second);
    return concat({a, b}, 3);
  };
  EXPECT_EQ(joined(32, Layout::kBlocked16, Layout::kBlocked16).layout(), Layout::kBlocked16);
  EXPECT_EQ(joined(32, Layout::kBlocked16, Layout::kPlain).layout(), Layout::kBlocked16);  // the larger part
  EXPECT_EQ(joined(96, Layout::kBlocked16, Layout::kPlain).layout(), Layout::kPlain);
  EXPECT_EQ(joined(8, Layout::kBlocked16, Layout::kBlocked8).layout(), Layout::kPlain);  // no layout has both
}

}  // namespace dlpipe::engine
