#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(ChannelDrop, SetsSomeChannelsAndLeavesOneAtLeast) {
  const OwnedImage image = make_image(3, 20, 12);
  const Chain chain = parse_or_die("channel_drop(1..3, fill=9)");
  std::vector<int> dropped_of(4);
  for (int position = 0; position < 400; ++position) {
    const SampleKey key{.seed = 4, .position = position};
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, key);
    const OwnedImage out = run_chain(chain, image, key);
    int dropped = 0;
    for (int c = 0; c < 3; ++c) {
      const bool drop = plan.draws[0].values[static_cast<size_t>(c)] > 0;
      dropped += drop ? 1 : 0;
      ASSERT_EQ(out.at(5, 3, c), drop ? 9 : image.at(5, 3, c));
    }
    ++dropped_of[static_cast<size_t>(dropped)];
  }
  EXPECT_EQ(dropped_of[0], 0);
  EXPECT_GT(dropped_of[1], 0);
  EXPECT_GT(dropped_of[2], 0);
  EXPECT_EQ(dropped_of[3], 0);
}

}  // namespace
}  // namespace dlpipe::augment
