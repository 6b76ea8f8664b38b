#include "dlpipe/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dlpipe {
namespace {

// A 3 x 2 stored image whose pixels are numbered, as it must be seen under each EXIF orientation.
TEST(Orientation, MapsTheImageAsExifDefines) {
  const std::vector<uint8_t> stored = {0, 1, 2, 3, 4, 5};
  const std::vector<std::vector<uint8_t>> seen = {{0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0},
                                                  {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2},
                                                  {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (int o = 1; o <= 8; ++o) {
    const bool swap = swaps_axes(static_cast<Orientation>(o));
    std::vector<uint8_t> out(6);
    const ImageView view{out.data(), swap ? 2 : 3, swap ? 3 : 2, 1, swap ? 2 : 3};
    orient_image({stored.data(), 3, 2, 1, 3}, static_cast<Orientation>(o), view);
    EXPECT_EQ(out, seen[static_cast<size_t>(o - 1)]) << "orientation " << o;
  }
}

// Cutting a region from the oriented image equals orienting the region that stored_region names.
TEST(Orientation, StoredRegionShowsTheSeenRegion) {
  constexpr int kWidth = 7;
  constexpr int kHeight = 5;
  std::vector<uint8_t> stored(kWidth * kHeight);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint8_t>(i);
  for (int o = 1; o <= 8; ++o) {
    const auto orientation = static_cast<Orientation>(o);
    const int width = swaps_axes(orientation) ? kHeight : kWidth;
    const int height = swaps_axes(orientation) ? kWidth : kHeight;
    std::vector<uint8_t> whole(stored.size());
    orient_image({stored.data(), kWidth, kHeight, 1, kWidth}, orientation,
                 {whole.data(), width, height, 1, width});
    const Region seen{1, 2, 3, 2};
    const Region part = stored_region(seen, width, height, orientation);
    std::vector<uint8_t> cut(static_cast<size_t>(seen.width * seen.height));
    orient_image({stored.data() + part.y * kWidth + part.x, part.width, part.height, 1, kWidth}, orientation,
                 {cut.data(), seen.width, seen.height, 1, seen.width});
    for (int y = 0; y < seen.height; ++y) {
      for (int x = 0; x < seen.width; ++x) {
        EXPECT_EQ(cut[static_cast<size_t>(y * seen.width + x)],
                  whole[static_cast<size_t>((y + seen.y) * width + x + seen.x)])
            << "orientation " << o;
      }
    }
  }
}

// Several squares, rows with a gap behind them: every pixel arrives whole, and the gaps are left alone.
TEST(Orientation, MovesPixelsOfAnyNumberOfChannels) {
  constexpr int kWidth = 70;
  constexpr int kHeight = 41;
  constexpr int kGap = 5;
  for (int channels = 1; channels <= 4; ++channels) {
    const ptrdiff_t stride = ptrdiff_t{kWidth} * channels + kGap;
    std::vector<uint8_t> stored(
        static_cast<size_t>(stride * kHeight - kGap));  // nothing behind the last pixel
    for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint8_t>(i * 7 + i / 251);
    const ConstImageView from{stored.data(), kWidth, kHeight, channels, stride};
    for (int o = 1; o <= 8; ++o) {
      const auto orientation = static_cast<Orientation>(o);
      const int width = swaps_axes(orientation) ? kHeight : kWidth;
      const int height = swaps_axes(orientation) ? kWidth : kHeight;
      const ptrdiff_t seen_stride = ptrdiff_t{width} * channels + kGap;
      std::vector<uint8_t> seen(static_cast<size_t>(seen_stride * height - kGap), 99);
      std::vector<uint8_t> expected = seen;
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const Region at = stored_region({x, y, 1, 1}, width, height, orientation);
          std::copy_n(from.row(at.y) + ptrdiff_t{at.x} * channels, channels,
                      expected.begin() + y * seen_stride + ptrdiff_t{x} * channels);
        }
      }
      orient_image(from, orientation, {seen.data(), width, height, channels, seen_stride});
      EXPECT_EQ(seen, expected) << "orientation " << o << ", " << channels << " channels";
    }
  }
}

}  // namespace
}  // namespace dlpipe
