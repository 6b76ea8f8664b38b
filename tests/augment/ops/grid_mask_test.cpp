#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(GridMask, MasksARegularGrid) {
  const OwnedImage image = make_image(3, 60, 40);
  const Chain chain = parse_or_die("grid_mask(0.25, 0.5, 7)");
  const ChainPlan plan = plan_or_die(chain, {60, 40, 3}, {.seed = 2});
  const auto at = [&](size_t i) { return static_cast<int>(plan.draws[0].values[i]); };
  EXPECT_EQ(at(0), 10);
  EXPECT_EQ(at(1), 5);
  const OwnedImage out = run_chain(chain, image, {.seed = 2});
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      const bool masked = (x - at(2) + 100) % 10 < 5 && (y - at(3) + 100) % 10 < 5;
      for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(x, y, c), masked ? 7 : image.at(x, y, c));
    }
  }
}

TEST(GridMask, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("grid_mask");
}

}  // namespace
}  // namespace dlpipe::augment
