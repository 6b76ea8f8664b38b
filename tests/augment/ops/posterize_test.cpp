#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Posterize, GivesPillowsPixels) {
  expect_golden("posterize");
}

TEST(Posterize, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("posterize(1..4)");
}

}  // namespace
}  // namespace dlpipe::augment
