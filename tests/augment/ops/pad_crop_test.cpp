#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

/// What a crop at (x, y) of the padded image shows, pixel by pixel from the definition.
OwnedImage expected_crop(const OwnedImage& image, int x, int y, int width, int height, bool reflect) {
  const auto fold = [](int i, int size) { return i < 0 ? -i : (i >= size ? 2 * size - 2 - i : i); };
  OwnedImage out(width, height, image.channels);
  size_t to = 0;
  for (int row = y; row < y + height; ++row) {
    for (int column = x; column < x + width; ++column) {
      const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
      for (int c = 0; c < image.channels; ++c, ++to) {
        if (inside) out.pixels[to] = image.at(column, row, c);
        if (!inside && reflect) {
          out.pixels[to] = image.at(fold(column, image.width), fold(row, image.height), c);
        }
      }
    }
  }
  return out;
}

TEST(PadCrop, ShowsTheShiftedImageFramedOrReflected) {
  const OwnedImage image = noise_image(11, 8);
  for (const bool reflect : {false, true}) {
    const Chain chain = parse_or_die(reflect ? "pad_crop(8x10, 5, reflect)" : "pad_crop(8x10, 5)");
    const Chain flipped =
        parse_or_die(reflect ? "pad_crop(8x10, 5, reflect) hflip(1)" : "pad_crop(8x10, 5) hflip(1)");
    for (int position = 0; position < 300; ++position) {
      const SampleKey key{.seed = 8, .position = position};
      const ChainPlan plan = plan_or_die(chain, {11, 8, 3}, key);
      const int x = static_cast<int>(plan.draws[0].values[0]);
      const int y = static_cast<int>(plan.draws[0].values[1]);
      const OwnedImage expected = expected_crop(image, x, y, 10, 8, reflect);
      ASSERT_EQ(run_chain(chain, image, key), expected) << "at " << x << "," << y;
      ASSERT_EQ(run_chain(flipped, image, key), expected.mirrored()) << "at " << x << "," << y;
    }
  }
}

TEST(PadCrop, OffsetsAreUniform) {
  const Chain chain = parse_or_die("pad_crop(32,4)");
  std::vector<int> x_seen(9);
  std::vector<int> y_seen(9);
  for (int position = 0; position < 9000; ++position) {
    const ChainPlan plan = plan_or_die(chain, {32, 32, 3}, {.seed = 6, .position = position});
    ++x_seen[static_cast<size_t>(plan.draws[0].values[0] + 4)];
    ++y_seen[static_cast<size_t>(plan.draws[0].values[1] + 4)];
  }
  for (int i = 0; i < 9; ++i) {
    EXPECT_NEAR(x_seen[i], 1000, 149);  // five times sqrt(9000 * 1/9 * 8/9)
    EXPECT_NEAR(y_seen[i], 1000, 149);
  }
}

TEST(PadCrop, RefusesImagesThatAreTooSmallNamingThem) {
  ChainPlan plan;
  EXPECT_EQ(parse_or_die("pad_crop(32,4)").plan({20, 40, 3}, {}, plan).message(),
            "[augment] pad_crop(size=32,pad=4,mode=zero): an image of 20x40 padded by 4 is smaller than the "
            "crop of 32x32 (width x height); put a resize before it or pad more");
  EXPECT_NE(parse_or_die("pad_crop(8,6,reflect)").plan({5, 40, 3}, {}, plan).message().find("reflected"),
            std::string::npos);
}

TEST(PadCrop, RefusesWrongArguments) {
  EXPECT_NE(parse_error("pad_crop(32,-1)").find("pad must be at least 0"), std::string::npos);
  EXPECT_NE(parse_error("pad_crop(32,32)").find("less than the size"), std::string::npos);
  EXPECT_NE(parse_error("pad_crop(32,4,reflct)").find("unknown mode 'reflct'; did you mean 'reflect'?"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
