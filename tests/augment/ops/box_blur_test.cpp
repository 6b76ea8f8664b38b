#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(BoxBlur, GivesOpenCvsPixelsWithinOneLevel) {
  expect_golden("box_blur", 1);
}

TEST(BoxBlur, DrawsEachOddWidthAsOften) {
  expect_even_widths("box_blur");
}

TEST(BoxBlur, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("box_blur");
}

}  // namespace
}  // namespace dlpipe::augment
