#include <algorithm>
#include <vector>

#include "augment/color_kernels.h"
#include "tests/augment/every_target.h"
#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

// Pillow's conversions in its mixture of floats and doubles, which decides what is cut off.
void pillows_hsv(const uint8_t* rgb, int* hsv) {
  const int r = rgb[0], g = rgb[1], b = rgb[2];
  const int most = std::max({r, g, b});
  const int least = std::min({r, g, b});
  hsv[0] = hsv[1] = 0;
  hsv[2] = most;
  if (most == least) return;
  const auto span = static_cast<float>(most - least);
  const float from_r = static_cast<float>(most - r) / span;
  const float from_g = static_cast<float>(most - g) / span;
  const float from_b = static_cast<float>(most - b) / span;
  float sixths = 0;
  if (r == most) {
    sixths = from_b - from_g;
  } else if (g == most) {
    sixths = static_cast<float>(2.0 + double{from_r} - double{from_b});
  } else {
    sixths = static_cast<float>(4.0 + double{from_g} - double{from_r});
  }
  const double turned = double{sixths} / 6.0 + 1.0;
  hsv[0] = static_cast<int>(double{static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned)} * 255.0);
  hsv[1] = static_cast<int>(double{span / static_cast<float>(most)} * 255.0);
}

void pillows_rgb(const int* hsv, uint8_t* rgb) {
  const int v = hsv[2];
  const auto part = [v](double share) {
    return static_cast<uint8_t>(static_cast<int>(double{static_cast<float>(v * share)} + 0.5));
  };
  const double sixths = double{static_cast<float>(hsv[0])} * 6.0 / 255.0;
  const int sixth = static_cast<int>(sixths);
  const double within = double{static_cast<float>(sixths - sixth)};
  const double s = double{static_cast<float>(hsv[1] / 255.0)};
  const uint8_t whole = static_cast<uint8_t>(v);
  const uint8_t p = part(1.0 - s), q = part(1.0 - s * within), t = part(1.0 - s * (1.0 - within));
  const uint8_t all[6][3] = {{whole, t, p}, {q, whole, p}, {p, whole, t},
                             {p, q, whole}, {t, p, whole}, {whole, p, q}};
  std::copy_n(hsv[1] == 0 ? std::data({whole, whole, whole}) : all[sixth % 6], 3, rgb);
}

// Every hue and every saturation of bright and dark colours: with blue in steps, a million colours.
TEST(Hue, OfEachColourIsPillows) {
  constexpr int kStep = 15;
  std::vector<uint8_t> colours;
  for (int b = 0; b < 256; b += kStep) {
    for (int g = 0; g < 256; ++g) {
      for (int r = 0; r < 256; ++r) {
        for (const int value : {r, g, b}) colours.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  const int width = static_cast<int>(colours.size() / 3);
  std::vector<int> hsv(colours.size());
  for (size_t i = 0; i < colours.size(); i += 3) pillows_hsv(&colours[i], &hsv[i]);
  std::vector<uint8_t> expected(colours.size());
  std::vector<uint8_t> turned(colours.size());
  for (const int shift : {0, 25, 200}) {
    for (size_t i = 0; i < colours.size(); i += 3) {
      const int moved[3] = {(hsv[i] + shift) & 255, hsv[i + 1], hsv[i + 2]};
      pillows_rgb(moved, &expected[i]);
    }
    on_every_target([&] {
      const ptrdiff_t stride = ptrdiff_t{3} * width;
      turn_hue(shift, {colours.data(), width, 1, 3, stride}, {turned.data(), width, 1, 3, stride});
      const auto [found, wanted] = std::mismatch(turned.begin(), turned.end(), expected.begin());
      const auto at = (found - turned.begin()) / 3 * 3;
      EXPECT_EQ(found, turned.end()) << "shift " << shift << ", colour " << int{colours[at]} << " "
                                     << int{colours[at + 1]} << " " << int{colours[at + 2]};
    });
  }
}

TEST(Hue, GivesTorchvisionsPixels) {
  expect_golden("hue");
}

TEST(Hue, NeedsNoMoreThanTheCropBehindIt) {
  expect_region_is_enough("hue(0.5)");
}

}  // namespace
}  // namespace dlpipe::augment
