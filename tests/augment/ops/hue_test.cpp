#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Hue, GivesTorchvisionsPixels) {
  expect_golden("hue");
}

TEST(Hue, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("hue(0.5)");
}

}  // namespace
}  // namespace dlpipe::augment
