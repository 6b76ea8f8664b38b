// Boxes, points and masks move as the pixels do.
#include "augment/moving.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/text.h"
#include "tests/augment/chain_testing.h"
#include "tests/base/test_file.h"

namespace dlpipe::augment {
namespace {

constexpr int kWidth = 120;
constexpr int kHeight = 90;

/// Each pixel says where it is: x, y and 255, which nothing else does.
OwnedImage places_image() {
  OwnedImage image(kWidth, kHeight);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      uint8_t* const pixel = &image.pixels[(size_t(y) * kWidth + size_t(x)) * 3];
      pixel[0] = static_cast<uint8_t>(x);
      pixel[1] = static_cast<uint8_t>(y);
      pixel[2] = 255;
    }
  }
  return image;
}

OwnedImage moved_mask(const ChainPlan& plan, const OwnedImage& mask, uint8_t fill) {
  OwnedImage out(plan.out.width, plan.out.height, 1);
  Moving(plan).mask(mask.view(), out.view(), fill);
  return out;
}

const char* const kExpressions[] = {
    "hflip(1)",
    "vflip(1)",
    "alternating_flip",
    "transpose(1)",
    "rot90",
    "resize(45x60,nearest)",
    "resize(131x173,nearest)",
    "rrc(50,interpolation=nearest)",
    "center_crop(60x40)",
    "center_crop(100x150)",
    "random_crop(30x50)",
    "pad(7:3:11:5)",
    "pad(9,edge)",
    "pad(9,reflect)",
    "pad_to(150x121)",
    "pad_to(150x121,reflect)",
    "pad_crop(100,10)",
    "pad_crop(100,10,reflect)",
    "rotate(-40..40,nearest)",
    "affine(-20..20,0.1,0.2,0.7..1.4,5,10,interpolation=nearest)",
    "shear(20,10,interpolation=nearest)",
    "translate(0.3,0.2,interpolation=nearest)",
    "perspective(0.6,nearest,p=1)",
    "elastic(6,24,nearest)",
    "grid_distortion(5,0.4,nearest)",
    "rrc(64,interpolation=nearest) hflip(1) rotate(30,nearest) pad(5) vflip",
    "resize(140) pad_to(170) random_crop(150) hflip transpose rot90",
    "saturation(1..1) rrc(64,interpolation=nearest) gaussian_blur(p=0) one_of(hflip(1)|transpose(1))",
};

// The pixels say themselves where they come from: one op's are those of the mask, but for roundings of coordinates. Of
// several ops each rounds to a pixel, while the mask is read once: near the pixel's place, but for the border.
TEST(Moving, MasksHoldWhereThePixelsComeFrom) {
  const OwnedImage image = places_image();
  for (const char* const expression : kExpressions) {
    const Chain chain = parse_or_die(expression);
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      const SampleKey key = {.seed = 5, .epoch = epoch, .position = 3, .sample = 3};
      const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, key);
      const OwnedImage pixels = run_chain(chain, image, key);
      OwnedImage x_of(kWidth, kHeight, 1), y_of(kWidth, kHeight, 1);
      for (size_t i = 0; i < x_of.pixels.size(); ++i) {
        x_of.pixels[i] = image.pixels[3 * i];
        y_of.pixels[i] = image.pixels[3 * i + 1];
      }
      const OwnedImage x = moved_mask(plan, x_of, 200), y = moved_mask(plan, y_of, 200);
      const bool is_single = plan.draws.size() == 1;
      int64_t others = 0;
      for (int row = 0; row < plan.out.height; ++row) {
        for (int column = 0; column < plan.out.width; ++column) {
          const bool is_seen = pixels.at(column, row, 2) == 255;
          const bool mask_seen = x.at(column, row) != 200;
          const int far = std::max(std::abs(x.at(column, row) - pixels.at(column, row, 0)),
                                   std::abs(y.at(column, row) - pixels.at(column, row, 1)));
          others += is_seen == mask_seen && (!is_seen || far <= (is_single ? 0 : 2)) ? 0 : 1;
        }
      }
      const int64_t all = int64_t{plan.out.width} * plan.out.height;
      EXPECT_LE(others * (is_single ? 100 : 20), all)
          << expression << " epoch " << epoch << ": " << others << " of " << all;
    }
  }
}

// A resize that halves reads between two pixels. Its mask takes the lower one of its input, as PyTorch's nearest-exact does,
// also where a flip or a turn came before.
TEST(Moving, MasksOfFlippedImagesAreHalvedAsPyTorchHalvesThem) {
  OwnedImage mask(kWidth, kHeight, 1);
  for (size_t i = 0; i < mask.pixels.size(); ++i) mask.pixels[i] = static_cast<uint8_t>(i * 7 % 199);
  for (const std::string before :
       {"pad(2)", "hflip(1)", "vflip(1)", "transpose(1)", "rot90(1..1)", "rot90(2..2)", "rot90(3..3)",
        "center_crop(40x60) hflip(1)", "hflip(1) pad(2)", "pad(4) rot90(1..1) vflip(1)"}) {
    const Chain first = parse_or_die(before);
    const OwnedImage whole = moved_mask(plan_or_die(first, {kWidth, kHeight, 3}, {}), mask, 200);
    const int width = whole.width / 2, height = whole.height / 2;
    for (const std::string after : {"", " hflip(1)"}) {
      const std::string expression = before + concat(" resize(", height, "x", width, ")") + after;
      const Chain chain = parse_or_die(expression);
      const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, {});
      const OwnedImage by_axes = moved_mask(plan, mask, 200);
      OwnedImage by_pixels(width, height, 1), expected(width, height, 1);
      std::fill(by_pixels.pixels.begin(), by_pixels.pixels.end(), uint8_t{200});
      Moving(plan).paint_mask_by_pixels(mask.view(), by_pixels.view(), {0, 0, width, height});
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const int from = after.empty() ? x : width - 1 - x;
          expected.pixels[size_t(y) * size_t(width) + size_t(x)] = whole.at(2 * from + 1, 2 * y + 1);
        }
      }
      EXPECT_EQ(by_axes.pixels, expected.pixels) << expression;
      EXPECT_EQ(by_pixels.pixels, expected.pixels) << expression;
    }
  }
}

// By rows and columns as by pixels: the same ones.
TEST(Moving, MasksByRowsAndColumnsAreThoseByPixels) {
  OwnedImage mask(kWidth, kHeight, 1);
  for (size_t i = 0; i < mask.pixels.size(); ++i) mask.pixels[i] = static_cast<uint8_t>(i * 7 % 199);
  for (const char* const expression : kExpressions) {
    const Chain chain = parse_or_die(expression);
    for (int64_t epoch = 0; epoch < 8; ++epoch) {
      const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, {.seed = 6, .epoch = epoch});
      const OwnedImage by_axes = moved_mask(plan, mask, 200);
      OwnedImage by_pixels(plan.out.width, plan.out.height, 1);
      std::fill(by_pixels.pixels.begin(), by_pixels.pixels.end(), uint8_t{200});
      const Moving moving(plan);
      moving.paint_mask_by_pixels(mask.view(), by_pixels.view(), {0, 0, plan.out.width, plan.out.height});
      EXPECT_EQ(by_axes.pixels, by_pixels.pixels) << expression << " epoch " << epoch;
    }
  }
}

TEST(Moving, PointsGoWhereTheyComeFrom) {
  for (const char* const expression : kExpressions) {
    const Chain chain = parse_or_die(expression);
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, {.seed = 5, .epoch = epoch});
      for (size_t i = 0; i < plan.draws.size(); ++i) {
        const OpDraw& draw = plan.draws[i];
        if (!draw.active) continue;
        const Movement movement = Chain::op_of(plan, i).first->movement(draw);
        for (const Place in : {Place{30.25, 20.5}, Place{60, 45}, Place{31, 44}}) {
          const std::optional<Place> out = movement.target(in);
          ASSERT_TRUE(out.has_value()) << expression;
          if (out->x < 0 || out->y < 0 || out->x > draw.out.width || out->y > draw.out.height) continue;
          const Place back = movement.source(*out);
          EXPECT_NEAR(back.x, in.x, 1e-3) << expression;
          EXPECT_NEAR(back.y, in.y, 1e-3) << expression;
        }
      }
    }
  }
}

TEST(Moving, PointsThatLeaveAreNoLongerVisibleAndKeepTheirRows) {
  const Chain chain = parse_or_die("center_crop(40x60) hflip(1)");  // x 30 .. 90, y 25 .. 65
  const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, {});
  std::vector<float> rows = {31, 26, 1, 29, 26, 1, 90, 65, 2, 40, 30, 0, -1, 30, 1};
  Moving(plan).points(rows);
  EXPECT_EQ(rows, (std::vector<float>{59, 1, 1, 61, 1, 0, 0, 40, 2, 50, 5, 0, 91, 5, 0}));
}

TEST(Moving, BoxesOfNoChainAreClippedToTheImage) {
  const Chain chain = parse_or_die("");
  const ChainPlan plan = plan_or_die(chain, {100, 50, 3}, {});
  std::vector<float> rows = {-5, 10, 120, 60, 3, 3, 3, 9, 10, 10, 20, 20};
  std::vector<uint8_t> kept;
  Moving(plan).boxes(rows, kept);
  EXPECT_EQ(kept, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 4), (std::vector<float>{0, 10, 100, 50}));
}

TEST(Moving, BoxesOfCurvedMovementsHoldTheirOutline) {
  const Chain chain = parse_or_die("elastic(9,24)");
  const ChainPlan plan = plan_or_die(chain, {kWidth, kHeight, 3}, {.seed = 8});
  const Movement movement = Chain::op_of(plan, 0).first->movement(plan.draws[0]);
  std::vector<float> rows = {30, 20, 90, 70};
  std::vector<uint8_t> kept;
  Moving(plan).boxes(rows, kept);
  for (int i = 0; i <= 100; ++i) {
    for (const Place in : {Place{30 + 0.6 * i, 20}, Place{30 + 0.6 * i, 70}, Place{30, 20 + 0.5 * i},
                           Place{90, 20 + 0.5 * i}}) {
      const Place out = *movement.target(in);
      EXPECT_GE(out.x, rows[0] - 0.5);
      EXPECT_GE(out.y, rows[1] - 0.5);
      EXPECT_LE(out.x, rows[2] + 0.5);
      EXPECT_LE(out.y, rows[3] + 0.5);
    }
  }
}

// golden/places.golden: four lines per case: the expression; library, width and height, then the values that the op is to have
// drawn; boxes; points, of which each pair before is followed by the pair after.
TEST(Moving, BoxesAndPointsAreThoseOfTorchvisionAndAlbumentations) {
  std::ifstream file(test_file("augment/golden/places.golden"));
  ASSERT_TRUE(file);
  std::string expression, line;
  int cases = 0;
  for (; std::getline(file, expression); ++cases) {
    std::getline(file, line);
    std::istringstream words(line);
    std::string library;
    ImageSize size;
    words >> library >> size.width >> size.height;
    const Chain chain = parse_or_die(expression);  // the plan points into it
    ChainPlan plan = plan_or_die(chain, size, {});
    size_t drawn = 0;
    for (float value = 0; words >> value; ++drawn) plan.draws.at(0).values.at(drawn) = value;
    const Moving moving(plan);
    const auto check = [&](size_t columns, bool is_box) {
      std::getline(file, line);
      std::istringstream numbers(line);
      std::vector<float> row(columns), expected(columns);
      const auto read = [&](std::vector<float>& to) {
        for (float& number : to) numbers >> number;
        return static_cast<bool>(numbers);
      };
      int rows = 0;
      for (; read(row) && read(expected); ++rows) {
        std::vector<uint8_t> kept;
        if (is_box) moving.boxes(row, kept);
        if (!is_box) {
          row.push_back(1);
          moving.points(row);
          row.pop_back();
        }
        for (size_t i = 0; i < columns; ++i)
          EXPECT_NEAR(row[i], expected[i], 2e-3) << expression << " " << library;
      }
      return rows;
    };
    EXPECT_GT(check(4, true), 0) << expression;
    check(2, false);
  }
  EXPECT_GT(cases, 30);
}

}  // namespace
}  // namespace dlpipe::augment
