#include <cmath>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(PoissonNoise, GrowsWithTheRootOfTheValue) {
  for (const int value : {64, 144}) {
    OwnedImage grey(200, 100);
    std::fill(grey.pixels.begin(), grey.pixels.end(), static_cast<uint8_t>(value));
    const OwnedImage out = run_chain("poisson_noise(255)", grey, {.seed = 3});
    double squares = 0;
    for (const uint8_t one : out.pixels) squares += (one - value) * (one - value);
    // One photon per value: sqrt(value). Five standard errors, 1 / sqrt(120000), and the rounding's 1/12.
    const double expected = std::sqrt(value + 1.0 / 12);
    EXPECT_NEAR(std::sqrt(squares / double(out.pixels.size())), expected, 0.0145 * expected);
  }
}

TEST(PoissonNoise, IsTheSameOnEveryInstructionSet) {
  const OwnedImage image = make_image(3, 61, 7);
  const OwnedImage expected = run_chain("poisson_noise", image, {.seed = 5});
  on_every_target([&] { ASSERT_EQ(run_chain("poisson_noise", image, {.seed = 5}), expected); });
}

}  // namespace
}  // namespace dlpipe::augment
