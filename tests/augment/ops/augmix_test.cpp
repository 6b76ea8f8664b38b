#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(AugMix, WeightsSumToOne) {
  const Chain chain = parse_or_die("augmix(width=4, alpha=0.5)");
  double own = 0;
  for (int position = 0; position < 4000; ++position) {
    const ChainPlan plan = plan_or_die(chain, {20, 12, 3}, {.position = position});
    double sum = 0;
    for (const float value : plan.draws[0].values) sum += static_cast<double>(value);
    ASSERT_NEAR(sum, 1, 1e-6);
    own += static_cast<double>(plan.draws[0].values[0]);
  }
  // Beta(1/2, 1/2) has mean 1/2 and standard deviation 0.354; five standard errors of 4000.
  EXPECT_NEAR(own / 4000, 0.5, 0.028);
}

TEST(AugMix, OfOpsThatChangeNothingIsTheImage) {
  OwnedImage black(20,
                   12);  // severity 1 leaves shapes and colours, equalize and autocontrast leave one colour
  EXPECT_EQ(run_chain("augmix(severity=1)", black, {}), black);
}

TEST(AugMix, IsAFunctionOfTheKeyAloneOnEveryInstructionSet) {
  const OwnedImage image = make_image(3, 45, 33);
  const OwnedImage expected = run_chain("augmix", image, {.seed = 5, .position = 3});
  EXPECT_NE(expected, image);
  on_every_target([&] { ASSERT_EQ(run_chain("augmix", image, {.seed = 5, .position = 3}), expected); });
}

}  // namespace
}  // namespace dlpipe::augment
