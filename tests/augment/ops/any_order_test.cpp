#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(AnyOrder, RunsAllInEveryOrder) {
  const OwnedImage image = make_image(3, 20, 12);
  const Chain chain = parse_or_die("any_order(brightness(0.5..0.5) | invert | solarize(100))");
  std::vector<uint64_t> hashes;
  for (int position = 0; position < 300; ++position) {
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, {.seed = 2, .position = position});
    EXPECT_EQ(plan.steps.size(), 3u);
    hashes.push_back(plan.hash);
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()) - hashes.begin(), 6);
}

}  // namespace
}  // namespace dlpipe::augment
