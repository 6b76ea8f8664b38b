#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Translate, GivesPillowsPixelsWithinOneLevel) {
  expect_golden("translate", 1, 0.6);
}

TEST(Translate, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("translate(0.3, 0.2)");
}

}  // namespace
}  // namespace dlpipe::augment
