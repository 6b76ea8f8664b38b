#include <algorithm>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Unsharp, GivesOpenCVsPixelsWithinTwoLevels) {
  expect_golden("unsharp", 2);
}

TEST(Unsharp, AddsTheDifferenceFromTheBlur) {
  const OwnedImage image = make_image(3, 45, 33);
  const OwnedImage blurred = run_chain("gaussian_blur(sigma=1.5)", image, {});
  const OwnedImage out = run_chain("unsharp(1.5, 0.5)", image, {});
  for (size_t i = 0; i < out.pixels.size(); ++i) {
    const double value = blurred.pixels[i] + 1.5 * (image.pixels[i] - blurred.pixels[i]);
    ASSERT_EQ(out.pixels[i], static_cast<int>(std::clamp(value, 0.0, 255.0)));
  }
}

TEST(Unsharp, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("unsharp");
}

}  // namespace
}  // namespace dlpipe::augment
