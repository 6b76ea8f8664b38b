#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Gamma, GivesTorchvisionsPixels) {
  expect_golden("gamma");
}

TEST(Gamma, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("gamma");
}

}  // namespace
}  // namespace dlpipe::augment
