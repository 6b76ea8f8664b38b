#include <gtest/gtest.h>

#include <string>

#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

// Windows of padding alone fit into images of no rows or columns.
TEST(AvgPool2dOp, PoolsOfNoPixelsAreRefused) {
  const Pool2dAttrs padded = {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  for (const bool is_average : {true, false}) {
    for (const Shape& shape : {Shape{1, 0, 5, 8}, Shape{1, 5, 0, 8}, Shape{1, 0, 0, 8}}) {
      try {
        is_average ? avg_pool2d(Tensor::zeros(shape), padded) : max_pool2d(Tensor::zeros(shape), padded);
        FAIL() << shape.to_string();
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), concat(is_average ? "[avg_pool2d]" : "[max_pool2d]",
                                       " expected images of at least one pixel, got ", shape.to_string()));
      }
    }
  }
  EXPECT_EQ(avg_pool2d(Tensor::zeros({0, 5, 5, 8}), padded).shape(), (Shape{0, 5, 5, 8})) << "no image";
}

}  // namespace
}  // namespace dlpipe::engine
