#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(RandomErasing, SetsOneRectangleWithinItsBoundsAndNothingElse) {
  const OwnedImage image = make_image(3, 80, 60);
  const Chain chain = parse_or_die("random_erasing(fill=10:20:30, p=1)");
  for (int position = 0; position < 200; ++position) {
    const SampleKey key{.seed = 1, .position = position};
    const ChainPlan plan = plan_or_die(chain, {80, 60, 3}, key);
    const auto at = [&](size_t i) { return static_cast<int>(plan.draws[0].values[i]); };
    const double share = at(2) * at(3) / (80.0 * 60);
    ASSERT_GT(share, 0.015);  // sides are rounded to whole pixels
    ASSERT_LT(share, 0.345);
    const OwnedImage out = run_chain(chain, image, key);
    for (int y = 0; y < 60; ++y) {
      for (int x = 0; x < 80; ++x) {
        const bool inside = x >= at(0) && x < at(0) + at(2) && y >= at(1) && y < at(1) + at(3);
        for (int c = 0; c < 3; ++c) ASSERT_EQ(out.at(x, y, c), inside ? 10 * (c + 1) : image.at(x, y, c));
      }
    }
  }
}

TEST(RandomErasing, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("random_erasing(p=1)");
  expect_region_is_enough("random_erasing(mode=noise, p=1)");
}

TEST(RandomErasing, NoiseIsTheSameOnEveryInstructionSet) {
  const OwnedImage image = make_image(3, 80, 60);
  const OwnedImage expected = run_chain("random_erasing(mode=noise, p=1)", image, {});
  on_every_target([&] { ASSERT_EQ(run_chain("random_erasing(mode=noise, p=1)", image, {}), expected); });
}

TEST(RandomErasing, LeavesAnImageThatNothingFitsAlone) {
  const OwnedImage image = make_image(3, 1, 1);
  EXPECT_EQ(run_chain("random_erasing(p=1)", image, {}), image);
}

TEST(RandomErasing, RefusesWrongParameters) {
  EXPECT_NE(parse_error("random_erasing(mode=nois)").find("unknown mode 'nois'; did you mean 'noise'?"),
            std::string::npos);
  EXPECT_NE(parse_error("random_erasing(scale=0.5..2)").find("scale must be in 1e-04..1"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
