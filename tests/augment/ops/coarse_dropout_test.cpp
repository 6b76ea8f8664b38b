#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(CoarseDropout, SetsAtMostSoManyRectangles) {
  const OwnedImage image = make_image(3, 60, 40);
  const OwnedImage out = run_chain("coarse_dropout(3, 0.25, 0.1, 9)", image, {.seed = 2});
  int changed = 0;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      if (out.at(x, y) == image.at(x, y) && out.at(x, y, 1) == image.at(x, y, 1)) continue;
      ++changed;
      for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(x, y, c), 9);
    }
  }
  EXPECT_GT(changed, 30);
  EXPECT_LE(changed, 3 * 6 * 10);
}

TEST(CoarseDropout, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("coarse_dropout(8)");
}

}  // namespace
}  // namespace dlpipe::augment
