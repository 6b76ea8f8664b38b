#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Vflip, GivesPillowsPixels) {
  expect_golden("vflip");
}

TEST(Vflip, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("vflip(1)");
}

}  // namespace
}  // namespace dlpipe::augment
