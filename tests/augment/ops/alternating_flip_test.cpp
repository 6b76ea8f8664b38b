#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

bool flips(const Chain& chain, const SampleKey& key) {
  return plan_or_die(chain, {4, 4, 3}, key).draws[0].active;
}

TEST(AlternatingFlip, ShowsEverySampleBothWaysInTurn) {
  const Chain chain = parse_or_die("alternating_flip");
  int flipped = 0;
  constexpr int kSamples = 2000;
  for (int sample = 0; sample < kSamples; ++sample) {
    // The place in the epoch changes from epoch to epoch; the sample doesn't.
    const bool first = flips(chain, {.seed = 5, .epoch = 0, .position = sample, .sample = sample});
    flipped += first ? 1 : 0;
    for (int epoch = 1; epoch < 6; ++epoch) {
      const SampleKey key{.seed = 5, .epoch = epoch, .position = 77 * epoch + sample, .sample = sample};
      ASSERT_EQ(flips(chain, key), first != (epoch % 2 == 1)) << sample << " in epoch " << epoch;
    }
  }
  // Five standard deviations: 5 sqrt(2000) / 2 = 112.
  EXPECT_NEAR(flipped, kSamples / 2, 112);
}

TEST(AlternatingFlip, OtherSeedsStartOtherwise) {
  const Chain chain = parse_or_die("alternating_flip");
  int different = 0;
  for (int sample = 0; sample < 100; ++sample) {
    different +=
        flips(chain, {.seed = 1, .sample = sample}) != flips(chain, {.seed = 2, .sample = sample}) ? 1 : 0;
  }
  EXPECT_GT(different, 20);
  EXPECT_LT(different, 80);
}

TEST(AlternatingFlip, MirrorsAndIsFolded) {
  const OwnedImage image = noise_image(40, 30);
  for (int64_t epoch : {0, 1}) {
    const SampleKey key{.epoch = epoch};
    const bool flipped = flips(parse_or_die("alternating_flip"), key);
    EXPECT_EQ(run_chain("alternating_flip", image, key), flipped ? image.mirrored() : image);
    const Chain chain = parse_or_die("center_crop(8) alternating_flip");
    const OwnedImage cropped = run_chain("center_crop(8)", image, key);
    EXPECT_EQ(run_chain(chain, image, key), flipped ? cropped.mirrored() : cropped);
  }
}

}  // namespace
}  // namespace dlpipe::augment
