#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Shear, GivesPillowsPixelsWithinOneLevel) {
  expect_golden("shear", 1, 0.6);
}

TEST(Shear, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("shear(20, 10)");
  expect_region_is_enough("shear(20, 10, corner, nearest)");
}

}  // namespace
}  // namespace dlpipe::augment
