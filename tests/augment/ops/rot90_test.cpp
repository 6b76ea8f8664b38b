#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Rot90, GivesNumpysPixels) {
  expect_golden("rot90");
}

TEST(Rot90, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("rot90");
}

}  // namespace
}  // namespace dlpipe::augment
