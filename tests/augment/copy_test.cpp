#include "augment/copy.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "dlpipe/random.h"
#include "tests/augment/every_target.h"

namespace dlpipe::augment {
namespace {

/// An image in memory of its own, with a margin on the right that nobody may touch.
struct Framed {
  static constexpr int kMargin = 5;
  Framed(int width, int height, int channels)
      : stride(ptrdiff_t{width} * channels + kMargin),
        bytes(static_cast<size_t>(stride * height), 0xab),
        view{bytes.data(), width, height, channels, stride} {}
  uint8_t& at(int y, int x, int c) { return view.row(y)[x * view.channels + c]; }
  bool margin_is_whole() const {
    for (int y = 0; y < view.height; ++y) {
      for (ptrdiff_t i = stride - kMargin; i < stride; ++i)
        if (bytes[static_cast<size_t>(y * stride + i)] != 0xab) return false;
    }
    return true;
  }
  ptrdiff_t stride;
  std::vector<uint8_t> bytes;
  ImageView view;
};

void fill(Framed& image) {
  RandomStream random(static_cast<uint64_t>(image.view.width), 0);
  for (int y = 0; y < image.view.height; ++y) {
    for (int x = 0; x < image.view.width * image.view.channels; ++x)
      image.view.row(y)[x] = static_cast<uint8_t>(random.below(256));
  }
}

TEST(CopyImage, MovesOrMirrorsEveryPixelAndNothingElse) {
  on_every_target([] {
    for (const int channels : {1, 3, 4}) {
      for (int width = 1; width < 120; width += 1 + width / 20) {
        Framed in(width, 3, channels);
        fill(in);
        for (const bool mirror : {false, true}) {
          Framed out(width, 3, channels);
          copy_image(ConstImageView(in.view), out.view, mirror);
          for (int y = 0; y < 3; ++y) {
            for (int x = 0; x < width; ++x) {
              for (int c = 0; c < channels; ++c)
                ASSERT_EQ(out.at(y, x, c), in.at(y, mirror ? width - 1 - x : x, c))
                    << width << "x" << channels << " " << mirror << " at " << y << " " << x;
            }
          }
          ASSERT_TRUE(out.margin_is_whole());
        }
      }
    }
  });
}

TEST(PlaceImage, PutsTheImageIntoAFrameWhereverItLies) {
  const Pixel value = {9, 8, 7, 6};
  for (const int channels : {1, 3}) {
    Framed in(20, 6, channels);
    fill(in);
    for (const int x : {-25, -20, -7, -1, 0, 3, 18, 19, 30}) {
      for (const int y : {-7, -6, -2, 0, 1, 4, 5, 9}) {
        for (const bool mirror : {false, true}) {
          Framed out(19, 5, channels);
          place_image(ConstImageView(in.view), x, y, value, out.view, mirror);
          for (int row = 0; row < 5; ++row) {
            for (int column = 0; column < 19; ++column) {
              const int from_x = (mirror ? 18 - column : column) - x;
              const int from_y = row - y;
              const bool inside = from_x >= 0 && from_x < 20 && from_y >= 0 && from_y < 6;
              for (int c = 0; c < channels; ++c)
                ASSERT_EQ(out.at(row, column, c),
                          inside ? in.at(from_y, from_x, c) : value[static_cast<size_t>(c)])
                    << x << "," << y << " " << mirror << " at " << row << " " << column;
            }
          }
          ASSERT_TRUE(out.margin_is_whole());
        }
      }
    }
  }
}

TEST(Copy, TurnsAsOrientImageDoesOnEveryTarget) {
  on_every_target([] {
    for (const int channels : {1, 3, 4}) {
      for (const auto& [width, height] : std::vector<std::pair<int, int>>{
               {1, 1}, {5, 9}, {9, 5}, {6, 4}, {4, 6}, {7, 7}, {16, 16}, {17, 31}, {70, 133}, {133, 70}}) {
        Framed stored(width, height, channels);
        fill(stored);
        for (int orientation = 1; orientation <= 8; ++orientation) {
          const auto turn = static_cast<Orientation>(orientation);
          const bool swaps = swaps_axes(turn);
          Framed turned(swaps ? height : width, swaps ? width : height, channels);
          Framed expected = turned;
          expected.view.data = expected.bytes.data();
          orient_image(stored.view, turn, expected.view);
          turn_image(stored.view, turn, turned.view);
          ASSERT_EQ(turned.bytes, expected.bytes)
              << width << "x" << height << "x" << channels << ", " << orientation;
        }
      }
    }
  });
}

}  // namespace
}  // namespace dlpipe::augment
