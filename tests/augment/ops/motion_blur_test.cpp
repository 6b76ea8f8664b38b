#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(MotionBlur, GivesThePixelsOfOpenCvsFilterOfThatLineWithinOneLevel) {
  expect_golden("motion_blur", 1);
}

TEST(MotionBlur, DrawsEachOddWidthAsOften) {
  expect_even_widths("motion_blur");
}

TEST(MotionBlur, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("motion_blur");
}

}  // namespace
}  // namespace dlpipe::augment
