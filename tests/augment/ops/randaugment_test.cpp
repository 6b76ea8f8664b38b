#include "tests/augment/golden_policy.h"

namespace dlpipe::augment {
namespace {

TEST(RandAugment, GivesTorchvisionsPixels) {
  expect_golden_policy("randaugment", 1000);
}

TEST(RandAugment, RunsSoManyOps) {
  const Chain chain = parse_or_die("randaugment(3, 12)");
  for (int position = 0; position < 100; ++position)
    EXPECT_LE(plan_or_die(chain, {20, 12, 3}, {.position = position}).steps.size(), 3u);
}

TEST(RandAugment, RefusesAMagnitudeThatThereIsNot) {
  EXPECT_NE(parse_error("randaugment(2, 31)").find("magnitude must be 0 to bins - 1 = 30, got 31"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
