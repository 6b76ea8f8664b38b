#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Brightness, GivesPillowsPixels) {
  expect_golden("brightness");
}

TEST(Brightness, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("brightness(0.5)");
}

}  // namespace
}  // namespace dlpipe::augment
