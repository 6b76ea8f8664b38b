#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(SomeOf, RunsSoManyDifferentOnesInTheirOrder) {
  const OwnedImage image = make_image(3, 20, 12);
  const Chain two = parse_or_die("some_of(2, brightness(0.5..0.5) | invert | solarize(128))");
  const std::vector<OwnedImage> pairs = {run_chain("brightness(0.5..0.5) invert", image, {}),
                                         run_chain("brightness(0.5..0.5) solarize(128)", image, {}),
                                         run_chain("invert solarize(128)", image, {})};
  std::vector<int> seen(3);
  for (int position = 0; position < 3000; ++position) {
    const OwnedImage out = run_chain(two, image, {.seed = 8, .position = position});
    const auto which = std::find(pairs.begin(), pairs.end(), out) - pairs.begin();
    ASSERT_LT(which, 3) << position;
    ++seen[static_cast<size_t>(which)];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 130);  // five times sqrt(3000 * 1/3 * 2/3)
}

TEST(SomeOf, RefusesMoreThanThereAre) {
  EXPECT_NE(parse_error("some_of(3, invert | hflip)").find("n is 3, but there are 2 alternatives"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
