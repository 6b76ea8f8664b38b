// JPEGs at the edges of the format, written by libjpeg itself: every sampling, sizes up to 65,500, extreme
// quantisers, progressive, with restart markers. Both layouts of ours give libjpeg's pixels, whole and in
// part, and the JPEG back.
#include <gtest/gtest.h>

#include <cstring>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/codec/jpeg_surgery.h"
#include "tests/io/data/codec/written_jpegs.h"

namespace dlpipe::data {
namespace {

Pixels region_pixels(std::span<const std::byte> bytes, const Region& region) {
  Pixels pixels(region.width, region.height, 3);
  const Status status = ImageDecoder().decode(bytes, region, pixels.view());
  EXPECT_TRUE(status.ok()) << status.message();
  return pixels;
}

void check_hard(const Hard& hard) {
  SCOPED_TRACE(std::to_string(hard.width) + "x" + std::to_string(hard.height) + "x" +
               std::to_string(hard.channels) + ", luma " + std::to_string(hard.h) + "x" +
               std::to_string(hard.v) + ", quantisers " + std::to_string(hard.dc_quant) + " and " +
               std::to_string(hard.ac_quant) + (hard.progressive ? ", progressive" : ""));
  const std::vector<std::byte> jpeg = written(hard);
  const Region all{0, 0, hard.width, hard.height};
  const Pixels expected = region_pixels(jpeg, all);
  const auto record = encode_coefficients(jpeg, {}, kFastTiles);
  const auto dense = encode_coefficients(jpeg, {}, kDenseTiles);
  for (const auto* one : {&record, &dense}) {
    ASSERT_TRUE(one->ok()) << one->status().message();
    EXPECT_EQ(region_pixels(**one, all).bytes, expected.bytes);
    const auto back = coefficients_to_jpeg(**one);
    ASSERT_TRUE(back.ok()) << back.status().message();
    if (hard.progressive) {
      EXPECT_EQ(region_pixels(*back, all).bytes, expected.bytes);
    } else {
      EXPECT_EQ(*back, jpeg);
    }
  }
  const auto indexed = encode_restart(jpeg);
  RandomStream random(static_cast<uint64_t>(hard.height), 1);
  for (int i = 0; i < 8; ++i) {
    const int width = 1 + static_cast<int>(random.below(static_cast<uint32_t>(std::min(hard.width, 300))));
    const int height = 1 + static_cast<int>(random.below(static_cast<uint32_t>(std::min(hard.height, 300))));
    const Region part{static_cast<int>(random.below(static_cast<uint32_t>(hard.width - width + 1))),
                      static_cast<int>(random.below(static_cast<uint32_t>(hard.height - height + 1))), width,
                      height};
    Pixels pixels(width, height, 3);
    for (int y = 0; y < height; ++y)
      std::memcpy(pixels.view().row(y),
                  expected.bytes.data() + (ptrdiff_t{part.y + y} * hard.width + part.x) * 3,
                  static_cast<size_t>(width) * 3);
    EXPECT_EQ(region_pixels(*record, part).bytes, pixels.bytes);
    EXPECT_EQ(region_pixels(*dense, part).bytes, pixels.bytes);
    if (indexed.ok()) {
      EXPECT_EQ(region_pixels(*indexed, part).bytes, pixels.bytes);
    }
  }
}

// libjpeg smooths blocks by their neighbours where bits of them never came; a crop must have the same neighbours.
TEST(HardJpegs, RegionsOfAProgressiveFileWithoutItsLastScansAreThoseOfTheWhole) {
  const Hard hard = {.width = 96, .height = 96, .progressive = true, .noise = false};
  const std::vector<std::byte> whole = written(hard);
  for (const int scans : {1, 2, 4, 6}) {
    const std::vector<std::byte> jpeg = with_scans(whole, scans);
    Pixels all = region_pixels(jpeg, {0, 0, hard.width, hard.height});
    for (const Region& part : {Region{28, 28, 40, 40}, Region{40, 0, 17, 96}, Region{0, 41, 96, 20},
                               Region{79, 79, 17, 17}, Region{0, 0, 9, 9}}) {
      Pixels pixels = region_pixels(jpeg, part);
      for (int y = 0; y < part.height; ++y) {
        const auto* const row = all.view().row(part.y + y) + ptrdiff_t{3} * part.x;
        ASSERT_TRUE(std::equal(row, row + ptrdiff_t{3} * part.width, pixels.view().row(y)))
            << scans << " scans, row " << y << " of " << part.width << "x" << part.height << " at " << part.x
            << "," << part.y;
      }
    }
  }
}

TEST(HardJpegs, EverySampling) {
  for (const bool progressive : {false, true}) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}})
      check_hard({.width = 157, .height = 91, .h = h, .v = v, .progressive = progressive});
    check_hard({.width = 157, .height = 91, .channels = 1, .progressive = progressive});
  }
}

TEST(HardJpegs, SmallestAndLongestSides) {
  for (int width = 1; width < 20; ++width) {
    for (const int height : {1, 2, 7, 8, 9, 16, 17}) check_hard({.width = width, .height = height});
  }
  for (const int channels : {1, 3}) {
    check_hard({.width = 65'500, .height = 1, .channels = channels});
    check_hard({.width = 1, .height = 65'500, .channels = channels});
    check_hard({.width = 65'500, .height = 17, .channels = channels, .noise = false});
    check_hard({.width = 33, .height = 65'500, .channels = channels, .noise = false});
  }
}

// Quantisers of 8 and 16 bits, from none to ones that leave the DC alone.
TEST(HardJpegs, ExtremeQuantisers) {
  for (const int quant : {1, 2, 255, 256, 2000, 16'000, 32'767}) {
    for (const bool noise : {false, true}) {
      check_hard({.dc_quant = quant, .ac_quant = quant, .noise = noise});
      check_hard({.dc_quant = 1, .ac_quant = quant, .noise = noise});
      check_hard({.dc_quant = quant, .ac_quant = 1, .progressive = true, .noise = noise});
    }
  }
}

TEST(HardJpegs, RestartMarkers) {
  for (const int rows : {1, 2, 3}) check_hard({.width = 200, .height = 120, .restart_rows = rows});
}

}  // namespace
}  // namespace dlpipe::data
