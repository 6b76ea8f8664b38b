#include "io/data/codec/restart.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "tests/base/test_file.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {
namespace {

Pixels decode(std::span<const std::byte> bytes, const Region& region, int channels = 3) {
  Pixels pixels(region.width, region.height, channels);
  const Status status = ImageDecoder().decode(bytes, region, pixels.view());
  EXPECT_TRUE(status.ok()) << status.message();
  return pixels;
}

Pixels wavy(int width, int height, uint64_t seed) {
  Pixels pixels(width, height, 3);
  RandomStream random(seed, 0);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < 3 * width; ++x)
      pixels.view().row(y)[x] =
          static_cast<uint8_t>((x * x / 90 + y * 3 + static_cast<int>(random.below(50))) % 256);
  }
  return pixels;
}

TEST(RestartIndex, IsAJpegOfTheSamePixelsAndMetadata) {
  int kept = 0;
  for (const Golden& golden : golden_images()) {
    if (!golden.name.ends_with(".jpg")) continue;
    SCOPED_TRACE(golden.name);
    const std::vector<std::byte> jpeg = read_image(golden.name);
    const auto indexed = encode_restart(jpeg);
    ASSERT_TRUE(indexed.ok()) << indexed.status().message();
    EXPECT_EQ(sniff_layout(*indexed), ImageLayout::kRestart);
    const ImageInfo info = *probe_image(*indexed);
    EXPECT_EQ(info.layout, ImageLayout::kRestart);
    EXPECT_EQ(info.orientation, probe_image(jpeg)->orientation);
    const Region all{0, 0, info.width, info.height};
    EXPECT_EQ(decode(*indexed, all).bytes, decode(jpeg, all).bytes);
    // Without its index segment it is a plain JPEG.
    const size_t length = static_cast<size_t>((*indexed)[4]) << 8 | static_cast<size_t>((*indexed)[5]);
    std::vector<std::byte> plain(*indexed);
    plain.erase(plain.begin() + 2, plain.begin() + 4 + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(sniff_layout(plain), ImageLayout::kJpeg);
    EXPECT_EQ(decode(plain, all).bytes, decode(jpeg, all).bytes);
    ++kept;
  }
  EXPECT_GE(kept, 15);
}

TEST(RestartIndex, AnyRegionEqualsTheSamePartOfTheWhole) {
  RandomStream random(6, 0);
  std::vector<std::vector<std::byte>> files;
  for (const Golden& golden : golden_images()) {
    if (golden.name.ends_with(".jpg")) files.push_back(*encode_restart(read_image(golden.name)));
  }
  for (const bool subsample : {true, false}) {
    for (const int width : {500, 375, 272, 33}) {
      Pixels image = wavy(width, 210, static_cast<uint64_t>(width));
      files.push_back(*encode_restart(*encode_jpeg(image.view(), 88, subsample)));
    }
  }
  for (const std::vector<std::byte>& file : files) {
    const ImageInfo info = *probe_image(file);
    const Pixels full = decode(file, {0, 0, info.width, info.height});
    for (int i = 0; i < 60; ++i) {
      const int width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(info.width)));
      const int height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(info.height)));
      const int x = static_cast<int>(random.below(static_cast<uint32_t>(info.width - width + 1)));
      const int y = static_cast<int>(random.below(static_cast<uint32_t>(info.height - height + 1)));
      Pixels part = decode(file, {x, y, width, height});
      for (int row = 0; row < height; ++row) {
        ASSERT_EQ(
            std::memcmp(part.view().row(row), full.bytes.data() + (ptrdiff_t{y + row} * info.width + x) * 3,
                        static_cast<size_t>(width) * 3),
            0)
            << info.width << "x" << info.height << ": " << width << "x" << height << "+" << x << "+" << y;
      }
    }
  }
}

TEST(RestartIndex, DamageNeverCrashes) {
  RandomStream random(13, 0);
  Pixels image = wavy(300, 200, 1);
  const std::vector<std::byte> good = *encode_restart(*encode_jpeg(image.view(), 85));
  ImageDecoder decoder;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bad = good;
    for (uint32_t flip = 0; flip <= random.below(6); ++flip)
      bad[random.below(i % 2 == 0 ? 600 : static_cast<uint32_t>(bad.size()))] =
          static_cast<std::byte>(random.below(256));
    if (i % 5 == 0) bad.resize(random.below(static_cast<uint32_t>(bad.size())));
    const auto info = probe_image(bad);
    if (!info.ok() || info->width < 40 || info->height < 40) {
      ++refused;
      continue;
    }
    Pixels pixels(30, 30, 3);
    if (!decoder.decode(bad, {5, 7, 30, 30}, pixels.view()).ok()) ++refused;
  }
  EXPECT_GT(refused, 300);
}

// Found by fuzzing: an index of 65,287 x 65,535 MCUs a row, whose product is no int.
TEST(RestartIndex, AnIndexOfTooManyMcusIsRefused) {
  const std::vector<std::byte> jpeg =
      read_test_file(test_file("fuzz/corpus/image/mcu_count_overflow.restart"));
  const auto info = probe_image(jpeg);
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->layout, ImageLayout::kRestart);
  Pixels pixels(8, 8, 3);
  const Status decoded = ImageDecoder().decode(jpeg, {0, 0, 8, 8}, pixels.view());
  EXPECT_EQ(decoded.code(), ErrorCode::kCorrupt) << decoded.message();
}

}  // namespace
}  // namespace dlpipe::data
