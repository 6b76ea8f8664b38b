#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Saturation, GivesPillowsPixels) {
  expect_golden("saturation");
}

TEST(Saturation, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("saturation(0.5)");
}

TEST(Saturation, LeavesGreyImagesAlone) {
  const OwnedImage grey = noise_image(9, 7, 1);
  EXPECT_EQ(run_chain("saturation(0..0)", grey, {}), grey);
}

}  // namespace
}  // namespace dlpipe::augment
