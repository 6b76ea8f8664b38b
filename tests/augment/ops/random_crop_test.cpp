#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(RandomCrop, IsARegionThatIsDecodedAlone) {
  const Chain chain = parse_or_die("random_crop(8x12)");
  std::vector<int> seen(9);
  for (int position = 0; position < 9000; ++position) {
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, {.seed = 4, .position = position});
    ASSERT_TRUE(plan.is_copy());
    ASSERT_EQ(plan.source_region.width, 12);
    ASSERT_EQ(plan.source_region.height, 8);
    ++seen[static_cast<size_t>(plan.source_region.x)];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 149);  // five times sqrt(9000 * 1/9 * 8/9)
}

TEST(RandomCrop, NamesAnImageThatIsTooSmall) {
  ChainPlan plan;
  EXPECT_NE(parse_or_die("random_crop(32)")
                .plan({20, 40, 3}, {}, plan)
                .message()
                .find("an image of 20x40 is smaller"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
