#include <cstdlib>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Elastic, OfNothingChangesNothing) {
  const OwnedImage image = make_image(3, 61, 47);
  EXPECT_EQ(run_chain("elastic(0)", image, {}), image);
}

TEST(Elastic, MovesNoPixelFurtherThanAlpha) {
  OwnedImage image(61, 47);  // x and y can be read from the pixel
  for (int y = 0; y < 47; ++y) {
    for (int x = 0; x < 61; ++x) {
      image.pixels[size_t(y * 61 + x) * 3] = static_cast<uint8_t>(4 * x);
      image.pixels[size_t(y * 61 + x) * 3 + 1] = static_cast<uint8_t>(4 * y);
      image.pixels[size_t(y * 61 + x) * 3 + 2] = 255;  // not outside
    }
  }
  int moved = 0;
  for (int position = 0; position < 20; ++position) {
    const OwnedImage out = run_chain("elastic(5, 8, fill=0)", image, {.position = position});
    for (int y = 0; y < 47; ++y) {
      for (int x = 0; x < 61; ++x) {
        if (out.at(x, y, 2) == 0) continue;
        ASSERT_LE(std::abs(out.at(x, y, 0) - 4 * x), 20);
        ASSERT_LE(std::abs(out.at(x, y, 1) - 4 * y), 20);
        moved += std::abs(out.at(x, y, 0) - 4 * x) > 4 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(moved, 1000);
}

TEST(Elastic, NeedsNoMoreThanTheCropBehindItAndIsTheSameOnEveryInstructionSet) {
  expect_region_is_enough("elastic(6, 16)");
  const OwnedImage image = make_image(3, 61, 47);
  const OwnedImage expected = run_chain("elastic", image, {.seed = 5});
  on_every_target([&] { ASSERT_EQ(run_chain("elastic", image, {.seed = 5}), expected); });
}

}  // namespace
}  // namespace dlpipe::augment
