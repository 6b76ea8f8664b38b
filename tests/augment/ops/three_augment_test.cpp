#include "tests/augment/golden_policy.h"

namespace dlpipe::augment {
namespace {

TEST(ThreeAugment, RunsOneOfThreeAndJitters) {
  const Chain chain = parse_or_die("three_augment");
  for (int position = 0; position < 50; ++position) {
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, {.position = position});
    EXPECT_EQ(plan.draws.size(), 4u);
  }
}

}  // namespace
}  // namespace dlpipe::augment
