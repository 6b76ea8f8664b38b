#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(MedianBlur, GivesOpenCvsPixels) {
  expect_golden("median_blur", 0);
}

TEST(MedianBlur, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("median_blur");
}

}  // namespace
}  // namespace dlpipe::augment
