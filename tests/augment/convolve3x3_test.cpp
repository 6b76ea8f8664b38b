// The small filter against its formula, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cmath>

#include "augment/neighbourhood_kernels.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"

namespace dlpipe::augment {
namespace {

TEST(Convolve3x3, IsItsFormulaOnEveryInstructionSet) {
  constexpr std::array<std::array<int, 9>, 5> kFilters = {{
      {-614, -205, 0, -205, 1024, 205, 0, 205, 614},  // as emboss
      {1, 1, 1, 1, 5, 1, 1, 1, 1},                    // as sharpness
      {-2000, 1, 2, 300, -4000, 5000, 7, 8, -9},      // nothing alike
      {0, 0, 0, 0, 0, 0, 0, 0, 0},
      {3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, -3000}  // clipped above
  }};
  on_every_target([&] {
    for (const int divisor : {1024, 13, 1, 999}) {
      for (const auto& filter : kFilters) {
        for (const auto& [width, height, channels] :
             {std::tuple{1, 1, 1}, {5, 3, 3}, {11, 2, 3}, {40, 7, 3}, {70, 4, 1}, {33, 5, 4}, {17, 5, 2}}) {
          const OwnedImage in = noise_image(width + 2, height + 2, channels);
          OwnedImage out(width, height, channels);
          convolve3x3(in.view(), filter, divisor, out.view());
          for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
              for (int c = 0; c < channels; ++c) {
                int sum = 0;
                for (int t = 0; t < 9; ++t) sum += filter[size_t(t)] * in.at(x + t % 3, y + t / 3, c);
                const double real = std::floor((2.0 * sum + divisor) / (2.0 * divisor));
                ASSERT_EQ(out.at(x, y, c), std::clamp(real, 0.0, 255.0))
                    << sum << " / " << divisor << " at " << x << "," << y << " of " << width << "x" << height;
              }
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace dlpipe::augment
