#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Transpose, GivesPillowsPixels) {
  expect_golden("transpose");
}

TEST(Transpose, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("transpose(1)");
}

}  // namespace
}  // namespace dlpipe::augment
