#include <cmath>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(GaussianNoise, HasTheStandardDeviationAndMeanAskedFor) {
  OwnedImage grey(200, 100);
  std::fill(grey.pixels.begin(), grey.pixels.end(), uint8_t{128});
  const OwnedImage out = run_chain("gaussian_noise(0.1, 0.05)", grey, {.seed = 3});
  double sum = 0, squares = 0;
  for (const uint8_t value : out.pixels) {
    sum += value - 128.0;
    squares += (value - 128.0) * (value - 128.0);
  }
  const auto count = static_cast<double>(out.pixels.size());
  const double mean = sum / count;
  // Five standard errors: 25.5 / sqrt(60000) = 0.104 of the mean, 25.5 / sqrt(120000) = 0.074 of the deviation.
  EXPECT_NEAR(mean, 0.05 * 255, 0.52);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 25.5, 0.37);
}

TEST(GaussianNoise, IsAFunctionOfTheKeyAloneOnEveryInstructionSet) {
  const OwnedImage image = make_image(3, 61, 7);
  const OwnedImage expected = run_chain("gaussian_noise(0.2)", image, {.seed = 5, .position = 9});
  EXPECT_NE(run_chain("gaussian_noise(0.2)", image, {.seed = 5, .position = 10}), expected);
  EXPECT_NE(expected, image);
  on_every_target(
      [&] { ASSERT_EQ(run_chain("gaussian_noise(0.2)", image, {.seed = 5, .position = 9}), expected); });
}

TEST(GaussianNoise, OfNothingChangesNothing) {
  const OwnedImage image = make_image(3, 61, 7);
  EXPECT_EQ(run_chain("gaussian_noise(0)", image, {}), image);
}

}  // namespace
}  // namespace dlpipe::augment
