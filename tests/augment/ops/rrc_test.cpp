#include <cmath>

#include "augment/resize.h"
#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(Rrc, IsTheResizeOfTheDrawnCropAlone) {
  const OwnedImage image = noise_image(80, 60);
  const Chain chain = parse_or_die("rrc(16x24)");
  for (int position = 0; position < 20; ++position) {
    const SampleKey key{.seed = 3, .position = position};
    const Region crop = plan_or_die(chain, {80, 60, 3}, key).source_region;
    OwnedImage expected(24, 16);
    resize_scalar(whole_resize(crop.width, crop.height, 24, 16), image.part(crop).view(), expected.view(),
                  false);
    EXPECT_EQ(run_chain(chain, image, key), expected);
  }
}

TEST(Rrc, CropsStayInsideAndWithinTheirBounds) {
  const Chain chain = parse_or_die("rrc(224, scale=0.2..0.8, ratio=1/2..2)");
  for (int position = 0; position < 5000; ++position) {
    const Region r = plan_or_die(chain, {500, 375, 3}, {.seed = 1, .position = position}).source_region;
    ASSERT_GE(r.x, 0);
    ASSERT_GE(r.y, 0);
    ASSERT_LE(r.x + r.width, 500);
    ASSERT_LE(r.y + r.height, 375);
    const double share = r.width * double(r.height) / (500 * 375);
    ASSERT_GT(share, 0.195);  // sides are rounded to whole pixels
    ASSERT_LT(share, 0.805);
    const double ratio = r.width / double(r.height);
    ASSERT_GT(ratio, 0.49);
    ASSERT_LT(ratio, 2.03);
  }
}

// In an image so large that no crop is drawn twice or rounded much, area is uniform and log ratio is
// uniform.
TEST(Rrc, AreaIsUniformAndRatioIsLogUniform) {
  const Chain chain = parse_or_die("rrc(224, scale=0.1..0.4)");
  constexpr int kSamples = 20000;
  constexpr int kSize = 10000;
  std::vector<int> by_area(10);
  std::vector<int> by_ratio(10);
  const double low = std::log(0.75);
  const double high = std::log(4.0 / 3.0);
  for (int position = 0; position < kSamples; ++position) {
    const Region r = plan_or_die(chain, {kSize, kSize, 3}, {.seed = 2, .position = position}).source_region;
    const double share = r.width * double(r.height) / (double{kSize} * kSize);
    const double log_ratio = std::log(r.width / double(r.height));
    ++by_area[std::clamp(static_cast<int>((share - 0.1) / 0.3 * 10), 0, 9)];
    ++by_ratio[std::clamp(static_cast<int>((log_ratio - low) / (high - low) * 10), 0, 9)];
  }
  // 2000 expected in each tenth, standard deviation sqrt(20000 * 0.1 * 0.9) = 42.4; five of them.
  for (int tenth = 0; tenth < 10; ++tenth) {
    EXPECT_NEAR(by_area[tenth], kSamples / 10, 213) << "area, tenth " << tenth;
    EXPECT_NEAR(by_ratio[tenth], kSamples / 10, 213) << "ratio, tenth " << tenth;
  }
}

TEST(Rrc, CornersReachEveryPlaceThatFits) {
  const Chain chain = parse_or_die("rrc(8, scale=1/4..1/4, ratio=1..1)");
  std::vector<int> x_seen(7);
  std::vector<int> y_seen(7);
  for (int position = 0; position < 7000; ++position) {
    const Region r = plan_or_die(chain, {12, 12, 3}, {.seed = 4, .position = position}).source_region;
    ASSERT_EQ(r.width, 6);
    ++x_seen[r.x];
    ++y_seen[r.y];
  }
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(x_seen[i], 1000, 147);  // five times sqrt(7000 * 1/7 * 6/7)
    EXPECT_NEAR(y_seen[i], 1000, 147);
  }
}

TEST(Rrc, FallsBackToTheMiddleOfAnImageThatNoCropFits) {
  // Ten times too wide: a crop of at least nine tenths of the area is never 3/4..4/3.
  const Chain chain = parse_or_die("rrc(8, scale=0.9..1)");
  EXPECT_EQ(plan_or_die(chain, {1000, 100, 3}, {}).source_region, (Region{433, 0, 133, 100}));
  EXPECT_EQ(plan_or_die(chain, {100, 1000, 3}, {}).source_region, (Region{0, 433, 100, 133}));
  EXPECT_EQ(plan_or_die(chain, {1, 1, 3}, {}).source_region, (Region{0, 0, 1, 1}));
}

// Fixed values: they change only with the op's version. (Computed by this program; the draws use basic
// arithmetic and square roots alone, so every machine must give them.)
TEST(Rrc, DrawsTheSameCropsOnEveryMachine) {
  const Chain chain = parse_or_die("rrc(224)");
  const auto crop = [&](int position) {
    return plan_or_die(chain, {500, 375, 3}, {.seed = 42, .epoch = 1, .position = position}).source_region;
  };
  EXPECT_EQ(crop(0), (Region{16, 8, 364, 364}));
  EXPECT_EQ(crop(1), (Region{30, 59, 217, 283}));
  EXPECT_EQ(crop(2), (Region{21, 4, 466, 362}));
}

TEST(Rrc, RefusesImpossibleBounds) {
  EXPECT_NE(parse_error("rrc(224, scale=0..1)").find("scale must be in 1e-04..1, got 0..1"),
            std::string::npos);
  EXPECT_NE(parse_error("rrc(224, scale=0.5..1.5)").find("scale must be in 1e-04..1, got 0.5..1.5"),
            std::string::npos);
  EXPECT_NE(parse_error("rrc(224, ratio=0..1)").find("ratio must be in 0.001..1000, got 0..1"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
