#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(ReshapeOp, IsAViewOfContiguousTensorsAndFillsInOneSize) {
  const Tensor x = Tensor::zeros({2, 3, 4});
  const Tensor y = reshape(x, {-1, 4});
  EXPECT_EQ(y.shape(), (Shape{6, 4}));
  EXPECT_EQ(y.raw(), x.raw());
  EXPECT_THROW(reshape(x, {5, -1}), Error);
  EXPECT_THROW(reshape(x, {-1, -1}), Error);
  EXPECT_THROW(reshape(x, {2, 3}), Error);
}

// Whose product is the number of elements.
TEST(ReshapeOp, RefusesNegativeSizes) {
  for (const Shape& shape : {Shape{-2, -3}, Shape{-1, -2}, Shape{-3, 1, -2}}) {
    try {
      reshape(Tensor::zeros({6}), shape);
      FAIL() << shape.to_string();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("[reshape] expected sizes of at least 0, got ["),
                std::string::npos)
          << error.what();
    }
  }
}

// Their product is 2^64.
TEST(ReshapeOp, RefusesSizesWhoseProductNoIntegerHolds) {
  constexpr int64_t kSide = int64_t{1} << 32;
  EXPECT_THROW(reshape(Tensor::zeros({0}), {kSide, kSide}), Error);
  EXPECT_THROW(reshape(Tensor::zeros({4}), {kSide, kSide, -1}), Error);
  EXPECT_EQ(reshape(Tensor::zeros({0}), {3, -1}).shape(), (Shape{3, 0}));
}

TEST(ReshapeOp, CopiesWhatIsNotContiguous) {
  const Tensor x = Tensor::from<float>(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(reshape(transpose(x, {1, 0}), {6}).to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(ReshapeOp, TakesEveryDtype) {
  const Tensor bytes = Tensor::from<uint8_t>(std::vector<uint8_t>{1, 2, 3, 4}, {4});
  EXPECT_EQ(reshape(bytes, {2, 2}).to_doubles(), (std::vector<double>{1, 2, 3, 4}));
}

}  // namespace dlpipe::engine
