#include "tests/augment/golden_policy.h"

namespace dlpipe::augment {
namespace {

TEST(AutoAugment, GivesTorchvisionsPixelsForEveryPairOfEveryPolicy) {
  expect_golden_policy("auto_augment", 12000);
}

}  // namespace
}  // namespace dlpipe::augment
