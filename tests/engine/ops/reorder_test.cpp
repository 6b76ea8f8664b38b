#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

Tensor ramp(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from<float>(values, shape);
}

TEST(ReorderOp, BetweenTheTwoBlockedLayoutsAndBack) {
  const Tensor x = ramp({2, 3, 5, 32});
  const Tensor eight = reorder(x, Layout::kBlocked8);
  const Tensor sixteen = reorder(eight, Layout::kBlocked16);
  EXPECT_EQ(sixteen.layout(), Layout::kBlocked16);
  EXPECT_EQ(reorder(sixteen, Layout::kBlocked8).to_doubles(), x.to_doubles());
  EXPECT_EQ(plain(sixteen).to_doubles(), x.to_doubles());
}

TEST(ReorderOp, TheSameLayoutIsTheSameTensor) {
  const Tensor x = ramp({1, 2, 2, 16});
  EXPECT_TRUE(same_tensor(reorder(x, Layout::kPlain), x));
}

TEST(ReorderOp, RefusesChannelsThatAreNoWholeBlocks) {
  try {
    reorder(ramp({1, 2, 2, 12}), Layout::kBlocked8);
    FAIL() << "12 channels in blocks of 8";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[reorder] expected images [N,H,W,C] with C a multiple of 8"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine
