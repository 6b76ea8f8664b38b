#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(FlattenOp, EmitsImagesInChannelsHeightWidthOrder) {
  Tensor x = Tensor::empty({1, 2, 3, 2});  // value = 100 c + 10 h + w
  for (int h = 0; h < 2; ++h) {
    for (int w = 0; w < 3; ++w) {
      for (int c = 0; c < 2; ++c)
        x.data<float>()[(h * 3 + w) * 2 + c] = static_cast<float>(100 * c + 10 * h + w);
    }
  }
  EXPECT_EQ(flatten(x).to_doubles(),
            (std::vector<double>{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112}));
}

TEST(FlattenOp, BlockedImagesGiveTheSameOrder) {
  Tensor x = Tensor::empty({2, 3, 2, 16});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i);
  EXPECT_EQ(flatten(reorder(x, Layout::kBlocked8)).to_doubles(), flatten(x).to_doubles());
}

}  // namespace dlpipe::engine
