#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Autocontrast, GivesPillowsPixels) {
  expect_golden("autocontrast");
}

TEST(Autocontrast, LooksAtTheWholeImage) {
  expect_region_is_enough("autocontrast", false);
}

}  // namespace
}  // namespace dlpipe::augment
