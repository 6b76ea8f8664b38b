#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Contrast, GivesPillowsPixels) {
  expect_golden("contrast");
}

TEST(Contrast, LooksAtTheWholeImage) {
  expect_region_is_enough("contrast(0.5)", false);
}

}  // namespace
}  // namespace dlpipe::augment
