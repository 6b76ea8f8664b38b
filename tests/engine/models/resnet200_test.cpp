#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

// Its parts are resnet50's; what is its own is how many.
TEST(Resnet200, HasTheParametersOfItsPlan) {
  constexpr int64_t kBlocks[] = {3, 24, 36, 3};
  int64_t expected = 64 * 3 * 7 * 7 + 2 * 64;
  int64_t in = 64;
  for (int i = 0; i < 4; ++i) {
    const int64_t width = 64 << i, out = 4 * width;
    expected += in * out + 2 * out;  // the first block's projection
    for (int64_t block = 0; block < kBlocks[i]; ++block) {
      expected += in * width + 9 * width * width + width * out + 2 * (width + width + out);
      in = out;
    }
  }
  EXPECT_EQ(count_parameters("resnet200", {1000, 3, 224, 224, 0}), expected + 2048 * 1000 + 1000);
}

}  // namespace
}  // namespace dlpipe::engine
