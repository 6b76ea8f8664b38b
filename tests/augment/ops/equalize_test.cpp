#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Equalize, GivesPillowsPixels) {
  expect_golden("equalize");
}

TEST(Equalize, LooksAtTheWholeImage) {
  expect_region_is_enough("equalize", false);
}

}  // namespace
}  // namespace dlpipe::augment
