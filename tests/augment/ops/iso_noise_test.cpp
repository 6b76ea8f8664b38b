#include <cmath>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(IsoNoise, IsBrightnessThatChannelsShareAndColourOfTheirOwn) {
  OwnedImage grey(200, 100);
  std::fill(grey.pixels.begin(), grey.pixels.end(), uint8_t{128});
  const auto deviations = [&](const std::string& expression) {
    const OwnedImage out = run_chain(expression, grey, {.seed = 3});
    double squares = 0, between = 0;
    for (int y = 0; y < 100; ++y) {
      for (int x = 0; x < 200; ++x) {
        squares += (out.at(x, y, 0) - 128) * (out.at(x, y, 0) - 128);
        between += std::abs(out.at(x, y, 0) - out.at(x, y, 1));
      }
    }
    return std::pair(std::sqrt(squares / 20000), between / 20000);
  };
  const auto [bright, none] = deviations("iso_noise(0, 0.1)");
  // 0.1 sqrt(128 * 255) = 18.07; five standard errors of 20000.
  EXPECT_NEAR(bright, 18.07, 0.5);
  EXPECT_EQ(none, 0);
  const auto [colored, apart] = deviations("iso_noise(0.05, 0)");
  EXPECT_NEAR(colored, 12.75, 0.35);
  EXPECT_GT(apart, 5);
}

}  // namespace
}  // namespace dlpipe::augment
