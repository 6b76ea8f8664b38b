#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Emboss, GivesAlbumentationsPixelsWithinOneLevel) {
  expect_golden("emboss", 1);
}

TEST(Emboss, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("emboss");
}

}  // namespace
}  // namespace dlpipe::augment
