#include <algorithm>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(MedianBlur, GivesOpenCvsPixels) {
  expect_golden("median_blur", 0);
}

uint8_t median_of_square(const OwnedImage& image, int x, int y, int c, int reach) {
  std::vector<uint8_t> values;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      const int at_x = std::clamp(x + dx, 0, image.width - 1), at_y = std::clamp(y + dy, 0, image.height - 1);
      values.push_back(image.view().row(at_y)[at_x * image.channels + c]);
    }
  }
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Rows shorter than a vector, and rows whose last vector does some pixels again.
TEST(MedianBlur, IsTheMiddleOfEachSquareInRowsOfAnyLength) {
  on_every_target([] {
    for (const int side : {1, 3, 5, 7}) {
      for (const int channels : {1, 3}) {
        for (const int width : {1, 5, 21, 22, 43, 64, 65, 130}) {
          const OwnedImage source = make_image(channels, width, 4);
          const OwnedImage blurred = run_chain(
              "median_blur(" + std::to_string(side) + ".." + std::to_string(side) + ")", source, {});
          for (int y = 0; y < 4; ++y) {
            for (int i = 0; i < width * channels; ++i) {
              ASSERT_EQ(blurred.view().row(y)[i],
                        median_of_square(source, i / channels, y, i % channels, side / 2))
                  << "side " << side << ", " << width << " x 4 x " << channels << ", row " << y << ", value "
                  << i;
            }
          }
        }
      }
    }
  });
}

TEST(MedianBlur, DrawsEachOddWidthAsOften) {
  expect_even_widths("median_blur");
}

TEST(MedianBlur, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("median_blur");
}

}  // namespace
}  // namespace dlpipe::augment
