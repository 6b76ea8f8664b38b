#include <cmath>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(FancyPca, AddsOneColourToEveryPixel) {
  OwnedImage grey(20, 12);
  std::fill(grey.pixels.begin(), grey.pixels.end(), uint8_t{128});
  const ChainPlan plan = plan_or_die(parse_or_die("fancy_pca(0.5)"), {20, 12, 3}, {.seed = 4});
  const OwnedImage out = run_chain("fancy_pca(0.5)", grey, {.seed = 4});
  for (int c = 0; c < 3; ++c) {
    const int expected =
        static_cast<int>(std::floor(128.5 + static_cast<double>(plan.draws[0].values[size_t(c)])));
    for (int x = 0; x < 20; ++x) ASSERT_EQ(out.at(x, 3, c), expected);
  }
}

// The first component is nearly grey and by far the longest: channels move together.
TEST(FancyPca, MovesAsImageNetVaries) {
  const Chain chain = parse_or_die("fancy_pca(1)");
  double squares[3] = {};
  double together = 0;
  for (int position = 0; position < 4000; ++position) {
    const auto moved = plan_or_die(chain, {4, 4, 3}, {.position = position}).draws[0].values;
    for (size_t c = 0; c < 3; ++c) squares[c] += double(moved[c]) * double(moved[c]);
    together += double(moved[0]) * double(moved[2]);
  }
  // sqrt(sum of (component * deviation)^2) * 255, five standard errors: 5 / sqrt(8000) = 5.6 %.
  EXPECT_NEAR(std::sqrt(squares[0] / 4000), 31.67, 1.8);
  EXPECT_GT(together / std::sqrt(squares[0] * squares[2]), 0.95);
}

}  // namespace
}  // namespace dlpipe::augment
