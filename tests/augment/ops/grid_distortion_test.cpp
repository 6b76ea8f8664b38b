#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(GridDistortion, OfNothingChangesNothing) {
  const OwnedImage image = make_image(3, 61, 47);
  EXPECT_EQ(run_chain("grid_distortion(5, 0)", image, {}), image);
}

TEST(GridDistortion, MovesColumnsAndRowsInTheirOrder) {
  OwnedImage image(61, 47);
  for (int y = 0; y < 47; ++y) {
    for (int x = 0; x < 61; ++x) image.pixels[size_t(y * 61 + x) * 3] = static_cast<uint8_t>(4 * x);
  }
  const OwnedImage out = run_chain("grid_distortion(5, 0.5)", image, {.seed = 3});
  EXPECT_NE(out, image);
  for (int x = 1; x < 61; ++x) {
    EXPECT_GE(out.at(x, 20), out.at(x - 1, 20));
    EXPECT_EQ(out.at(x, 20), out.at(x, 40));
  }
}

TEST(GridDistortion, IsTheSameOnEveryInstructionSet) {
  const OwnedImage image = make_image(3, 61, 47);
  const OwnedImage expected = run_chain("grid_distortion", image, {.seed = 5});
  on_every_target([&] { ASSERT_EQ(run_chain("grid_distortion", image, {.seed = 5}), expected); });
}

}  // namespace
}  // namespace dlpipe::augment
