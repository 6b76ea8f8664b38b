#include "io/data/look_alike.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>

#include "dlpipe/codec.h"
#include "tests/io/data/scenes.h"

namespace dlpipe::data {
namespace {

ImageLook look(Pixels pixels) {
  std::vector<uint16_t> work;
  return look_of(pixels.view(), work);
}

using Numbers = std::set<std::pair<uint32_t, uint32_t>>;
Numbers numbers_of(const std::vector<AlikePair>& pairs) {
  Numbers numbers;
  for (const AlikePair& pair : pairs) numbers.emplace(pair.first, pair.second);
  return numbers;
}

TEST(LookAlike, FindsCopiesOfEveryKind) {
  std::vector<ImageLook> looks = {look(scene(1, 200, 150))};
  looks.push_back(look(scene(1, 200, 150)));                                     // 1: the same pixels
  looks.push_back(look(scene(1, 61, 43)));                                       // 2: smaller
  looks.push_back(look(scene(1, 200, 150, {.mirrored = true})));                 // 3
  looks.push_back(look(scene(1, 200, 150, {.gain = 1.2})));                      // 4: brighter
  looks.push_back(look(scene(1, 194, 146, {.x = .01, .y = .02, .side = .97})));  // 5: cropped
  Pixels recoded = scene(1, 200, 150);
  const auto jpeg = *encode_jpeg(recoded.view(), 40);
  ASSERT_TRUE(ImageDecoder().decode(jpeg, {0, 0, 200, 150}, recoded.view()).ok());
  looks.push_back(look(recoded));  // 6
  for (uint64_t other = 2; other < 30; ++other) looks.push_back(look(scene(other, 200, 150)));

  const std::vector<AlikePair> pairs = alike_pairs(looks, 2);
  const Numbers numbers = numbers_of(pairs);
  for (uint32_t copy = 1; copy <= 6; ++copy) EXPECT_TRUE(numbers.contains({0, copy})) << copy;
  for (const AlikePair& pair : pairs) {
    EXPECT_LT(pair.first, pair.second);
    EXPECT_LE(pair.second, 6U);
    EXPECT_EQ(pair.same_pixels, pair.second == 1);
    EXPECT_EQ(pair.mirrored, (pair.first == 3) != (pair.second == 3)) << pair.first << " " << pair.second;
  }
}

// Datasets that were made with --dedup would be made otherwise if looks changed.
TEST(LookAlike, TheLookOfAnImageStaysAsItIs) {
  Pixels image(96, 72, 3);
  for (size_t i = 0; i < image.bytes.size(); ++i) {
    const size_t pixel = i / 3, x = pixel % 96, y = pixel / 96;
    image.bytes[i] = static_cast<uint8_t>((x * x / 40 + y * (i % 3 + 1) + x * y / 50) % 256);
  }
  const ImageLook seen = look(image);
  EXPECT_EQ(seen.signs, 7315179116408774720U);
  const std::array<int8_t, 63> expected = {
      -84, -65, -78, -127, -9, 2,   35, -37, -17, 8,  77, 115, -3, -11, -7, -74, -108, -4, 0,  -13, -4,
      44,  39,  -36, 10,   6,  -10, -6, -21, 17,  80, 5,  -8,  6,  -10, 26, -31, -79,  -4, -1, -1,  7,
      17,  44,  -22, 2,    8,  -9,  -7, 50,  2,   -9, 4,  -56, 0,  9,   -4, -14, -6,   5,  5,  -10, 10};
  EXPECT_EQ(seen.coefficients, expected);
  EXPECT_EQ(seen.colour, (std::array<uint8_t, 2>{76, 92}));
}

TEST(LookAlike, OneColourHasOnlyItsPixels) {
  Pixels grey(40, 30, 3), darker(40, 30, 3);
  std::fill(grey.bytes.begin(), grey.bytes.end(), uint8_t{90});
  std::fill(darker.bytes.begin(), darker.bytes.end(), uint8_t{89});
  const std::vector<ImageLook> looks = {look(grey), look(darker), look(grey)};
  EXPECT_EQ(looks[0].signs, 0U);
  EXPECT_EQ(numbers_of(alike_pairs(looks, 1)), (Numbers{{0, 2}}));
}

TEST(LookAlike, OtherSizesOfTheSameBytesAreOtherPixels) {
  EXPECT_NE(look(Pixels(4, 3, 1)).pixels, look(Pixels(2, 6, 1)).pixels);
  EXPECT_NE(look(Pixels(6, 2, 1)).pixels, look(Pixels(2, 2, 3)).pixels);
}

TEST(LookAlike, GreyAndColourOfAnImageAreAlike) {
  Pixels colour = scene(3, 90, 60), grey(90, 60, 1);
  for (size_t i = 0; i < grey.bytes.size(); ++i) grey.bytes[i] = colour.bytes[3 * i + 1];
  EXPECT_EQ(alike_pairs(std::vector{look(colour), look(grey)}, 1).size(), 1U);
}

/// Looks with coefficients that agree with their signs, some of them near others.
std::vector<ImageLook> random_looks(size_t count) {
  std::vector<ImageLook> looks(count);
  RandomStream random(5, 0);
  for (size_t i = 0; i < count; ++i) {
    looks[i].pixels = i + 1;
    for (int bit = 0; bit < 63; ++bit) looks[i].signs |= uint64_t{random.below(2)} << bit;
    if (i % 3 > 0) looks[i].signs = looks[i - i % 3].signs;
    for (size_t flips = i % 14; flips > 0 && i % 3 > 0; --flips)
      looks[i].signs ^= uint64_t{1} << random.below(63);
    looks[i].coefficients.fill(1);  // all are alike but for their signs
  }
  return looks;
}

TEST(LookAlike, OtherColoursAreOtherImages) {
  Pixels green = scene(3, 90, 60), blue = green;
  for (size_t i = 0; i < green.bytes.size(); i += 3) green.bytes[i + 2] /= 2, blue.bytes[i + 1] /= 2;
  EXPECT_TRUE(alike_pairs(std::vector{look(green), look(blue)}, 1).empty());
}

TEST(LookAlike, TablesFindWhatComparingAllPairsFinds) {
  const std::vector<ImageLook> looks = random_looks(600);
  Numbers expected;
  for (uint32_t b = 0; b < looks.size(); ++b) {
    for (uint32_t a = 0; a < b; ++a) {
      if (std::popcount(looks[a].signs ^ looks[b].signs) <= 11) expected.emplace(a, b);
    }
  }
  ASSERT_GT(expected.size(), 300U);
  const std::vector<AlikePair> pairs = alike_pairs(looks, 1);
  EXPECT_EQ(numbers_of(pairs), expected);
  const auto same = [](const AlikePair& a, const AlikePair& b) {
    return a.first == b.first && a.second == b.second;
  };
  EXPECT_TRUE(std::ranges::equal(pairs, alike_pairs(looks, 3), same));
}

TEST(LookAlike, ManyAlikeImagesMakeFewPairsAndAreNoCopies) {
  std::vector<ImageLook> looks = random_looks(3);
  looks.resize(500, looks.front());
  for (size_t i = 0; i < looks.size(); ++i) looks[i].pixels = i + 1;
  const std::vector<AlikePair> pairs = alike_pairs(looks, 2);
  EXPECT_LE(pairs.size(), 32 * looks.size());
  EXPECT_GE(alike_by_nature(looks.size(), pairs), 498U);
  EXPECT_EQ(alike_by_nature(10 * looks.size(), pairs), 0U);  // less than a tenth: copies of a few
  for (ImageLook& look : looks) look.pixels = 1;  // the same pixels are copies, however many they are
  EXPECT_EQ(alike_by_nature(looks.size(), alike_pairs(looks, 2)), 0U);
}

TEST(LookAlike, GroupsAreConnectedAndCopiesAreOfImagesThatStay) {
  const std::vector<AlikePair> chain = {{1, 2}, {2, 4}, {0, 5}};
  EXPECT_EQ(alike_groups(7, chain), (std::vector<int64_t>{0, 1, 1, -1, 1, 0, -1}));
  EXPECT_EQ(copies_of(7, chain), (std::vector<int64_t>{-1, -1, 1, -1, -1, 0, -1}));  // 4 is not like 1
}

}  // namespace
}  // namespace dlpipe::data
