#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Grayscale, GivesPillowsPixels) {
  expect_golden("grayscale");
}

TEST(Grayscale, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("grayscale");
}

}  // namespace
}  // namespace dlpipe::augment
