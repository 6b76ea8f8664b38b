#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(ChannelShuffle, KeepsEveryPixelsValuesAndReachesAllOrders) {
  const OwnedImage image = make_image(3, 20, 12);
  const Chain chain = parse_or_die("channel_shuffle");
  std::vector<int> seen(27);
  for (int position = 0; position < 600; ++position) {
    const SampleKey key{.seed = 4, .position = position};
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, key);
    const auto source = [&](size_t c) { return static_cast<int>(plan.draws[0].values[c]); };
    const OwnedImage out = run_chain(chain, image, key);
    for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(7, 5, c), image.at(7, 5, source(static_cast<size_t>(c))));
    ++seen[static_cast<size_t>(source(0) * 9 + source(1) * 3 + source(2))];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 21);  // six orders
}

}  // namespace
}  // namespace dlpipe::augment
