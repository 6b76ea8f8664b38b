#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Invert, GivesPillowsPixels) {
  expect_golden("invert");
}

TEST(Invert, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("invert");
}

}  // namespace
}  // namespace dlpipe::augment
