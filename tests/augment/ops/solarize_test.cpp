#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Solarize, GivesPillowsPixels) {
  expect_golden("solarize");
}

TEST(Solarize, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("solarize(100..200)");
}

}  // namespace
}  // namespace dlpipe::augment
