#include "tests/augment/golden_policy.h"

namespace dlpipe::augment {
namespace {

TEST(TrivialAugment, GivesTorchvisionsPixels) {
  expect_golden_policy("trivial_augment", 12000, false);
}

}  // namespace
}  // namespace dlpipe::augment
