// The blurs against their arithmetic by plain loops, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cstring>

#include "augment/copy.h"
#include "augment/neighbourhood_kernels.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/guarded_bytes.h"
#include "tests/augment/random_geometry.h"

namespace dlpipe::augment {
namespace {

/// Values of 8.8 bits times weights of 0.16 bits, each product cut off; half of a last bit per tap is added.
template <class Value>
uint16_t blurred(const std::vector<uint16_t>& weights, const Value& value) {
  uint32_t sum = static_cast<uint32_t>(weights.size() / 2);
  for (size_t t = 0; t < weights.size(); ++t) sum += (value(static_cast<int>(t)) * weights[t]) >> 16;
  return static_cast<uint16_t>(sum);
}

OwnedImage expected_blur(const OwnedImage& image, const std::vector<uint16_t>& weights) {
  const int reach = static_cast<int>(weights.size() / 2);
  std::vector<uint16_t> down;
  for (int y = 0; y < image.height; ++y) {
    for (int i = 0; i < image.width * image.channels; ++i) {
      down.push_back(blurred(weights, [&](int t) {
        const int row = reflected(y + t - reach, image.height);
        return uint32_t{image.at(i / image.channels, row, i % image.channels)} << 8;
      }));
    }
  }
  OwnedImage out = image;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        const uint16_t sum = blurred(weights, [&](int t) {
          const int column = reflected(x + t - reach, image.width);
          return uint32_t{down[size_t((y * image.width + column) * image.channels + c)]};
        });
        out.view().row(y)[x * image.channels + c] = static_cast<uint8_t>((sum + 128) >> 8);
      }
    }
  }
  return out;
}

TEST(Blur, IsItsArithmeticOfAnyWindowOnEveryInstructionSet) {
  on_every_target([] {
    RandomStream rng(8, 0);
    std::vector<std::byte> work;
    for (int round = 0; round < 120; ++round) {
      const int reach = random_below(rng, round % 7 == 0 ? 12 : 4);
      const bool is_even = round % 2 == 0;
      const std::vector<uint16_t> weights =
          is_even ? blur_weights(std::vector<double>(size_t(2 * reach + 1), 1.0))
                  : gaussian_weights(1.3, reach);
      OwnedImage image =
          noise_image(random_size(rng, 90), random_size(rng, 40), 1 + round % 4, uint64_t(round));
      if (round % 10 == 3) std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{255});
      Region window = {0, 0, image.width, image.height};
      if (round % 3 != 0) window = random_part(rng, image.width, image.height);
      const int left = std::max(window.x - reach, 0), top = std::max(window.y - reach, 0);
      const Region region = {left, top, std::min(window.x + window.width + reach, image.width) - left,
                             std::min(window.y + window.height + reach, image.height) - top};
      const OwnedImage part = image.part(region);
      GuardedBytes in_bytes(part.pixels.size());
      std::memcpy(in_bytes.data, part.pixels.data(), part.pixels.size());
      ConstImageView in = part.view();
      in.data = in_bytes.data;
      OwnedImage result(window.width, window.height, image.channels);
      GuardedBytes out_bytes(result.pixels.size());
      ImageView out = result.view();
      out.data = out_bytes.data;
      convolve({in, region, window, image.width, image.height}, weights, out, work);
      std::memcpy(result.pixels.data(), out_bytes.data, result.pixels.size());
      ASSERT_EQ(result, expected_blur(image, weights).part(window))
          << "round " << round << ": " << weights.size() << " weights, " << image.width << "x" << image.height
          << "x" << image.channels;
    }
  });
}

}  // namespace
}  // namespace dlpipe::augment
