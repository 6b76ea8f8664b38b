#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(GaussianBlur, GivesTorchvisionsPixelsWithinOneLevel) {
  expect_golden("gaussian_blur", 1, 0.2);
}

TEST(GaussianBlur, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("gaussian_blur(7)");
}

TEST(GaussianBlur, RefusesAKernelWithoutAMiddle) {
  EXPECT_NE(parse_error("gaussian_blur(4)").find("size must be odd"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
