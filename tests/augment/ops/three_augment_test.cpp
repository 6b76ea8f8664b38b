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

TEST(ThreeAugment, JittersByAllDigitsOfItsNumber) {
  const auto draws = [](const char* jitter) {
    std::vector<float> values;
    for (int position = 0; position < 200; ++position) {
      const ChainPlan plan = plan_or_die(parse_or_die(std::string("three_augment(") + jitter + ")"),
                                         {20, 12, 3}, {.position = position});
      for (const OpDraw& draw : plan.draws)
        values.insert(values.end(), draw.values.begin(), draw.values.end());
    }
    return values;
  };
  EXPECT_NE(draws("0.9876543"), draws("0.987654"));
}

}  // namespace
}  // namespace dlpipe::augment
