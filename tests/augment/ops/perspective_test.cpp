#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Perspective, GivesPillowsPixelsWithinOneLevel) {
  expect_golden("perspective", 1, 0.6);
}

TEST(Perspective, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("perspective(0.5, p=1)");
  expect_region_is_enough("perspective(0.5, nearest, p=1)");
}

TEST(Perspective, LeavesALineAlone) {
  const OwnedImage line = make_image(3, 9, 1);
  EXPECT_EQ(run_chain("perspective(0.5, p=1)", line, {}), line);
}

}  // namespace
}  // namespace dlpipe::augment
