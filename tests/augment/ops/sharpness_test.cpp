#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Sharpness, GivesPillowsPixels) {
  expect_golden("sharpness");
}

TEST(Sharpness, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("sharpness(2)");
}

}  // namespace
}  // namespace dlpipe::augment
