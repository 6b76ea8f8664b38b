#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Rotate, GivesPillowsPixelsWithinOneLevel) {
  expect_golden("rotate", 1, 0.6);
}

TEST(Rotate, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("rotate(30)");
  expect_region_is_enough("rotate(180, nearest)");
}

}  // namespace
}  // namespace dlpipe::augment
