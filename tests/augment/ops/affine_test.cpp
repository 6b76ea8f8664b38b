#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Affine, GivesPillowsPixelsWithinOneLevel) {
  expect_golden("affine", 1, 0.6);
}

TEST(Affine, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("affine(20, 0.1, 0.1, 0.8..1.2, 5, 5)");
  expect_region_is_enough("affine(20, 0.1, 0.1, 0.8..1.2, 5, 5, nearest)");
}

}  // namespace
}  // namespace dlpipe::augment
