#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

TEST(Hflip, MirrorsAWholeImageWhenItStandsAlone) {
  const OwnedImage image = noise_image(7, 5);
  EXPECT_EQ(run_chain("hflip(1)", image, {}), image.mirrored());
  EXPECT_EQ(run_chain("hflip(0)", image, {}), image);
  EXPECT_EQ(run_chain("hflip(1) hflip(1)", image, {}), image);
}

TEST(Hflip, WorksOnEveryChannelCount) {
  for (int channels : {1, 2, 3, 4}) {
    const OwnedImage image = noise_image(9, 3, channels);
    EXPECT_EQ(run_chain("hflip(1)", image, {}), image.mirrored()) << channels;
  }
}

TEST(Hflip, IsFoldedIntoTheOpBeforeIt) {
  const Chain chain = parse_or_die("rrc(8) hflip(1)");
  const ChainPlan plan = plan_or_die(chain, {40, 30, 3}, {});
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(plan.draws[0].mirror);
  const OwnedImage image = noise_image(40, 30);
  EXPECT_EQ(run_chain(chain, image, {}), run_chain("rrc(8)", image, {}).mirrored());
}

TEST(Hflip, TwoFoldedFlipsCancel) {
  const OwnedImage image = noise_image(40, 30);
  EXPECT_EQ(run_chain("rrc(8) hflip(1) hflip(1)", image, {}), run_chain("rrc(8)", image, {}));
}

TEST(Hflip, FlipsWithItsProbability) {
  const Chain chain = parse_or_die("hflip(0.3)");
  int flipped = 0;
  constexpr int kSamples = 20000;
  for (int i = 0; i < kSamples; ++i) {
    flipped += plan_or_die(chain, {4, 4, 3}, {.seed = 5, .position = i}).draws[0].active ? 1 : 0;
  }
  // Five standard deviations: 5 sqrt(0.3 * 0.7 / 20000) = 0.0162.
  EXPECT_NEAR(flipped / double{kSamples}, 0.3, 0.0162);
}

TEST(Hflip, RefusesAProbabilityOutsideZeroToOne) {
  EXPECT_EQ(parse_error("hflip(2)"),
            "[augment] hflip: p must be in 0..1, got 2 at position 7 of \"hflip(2)\"");
}

}  // namespace
}  // namespace dlpipe::augment
