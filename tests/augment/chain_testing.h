// What the augmentation tests share: images made of a formula, and a chain run from end to end.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlpipe/augment.h"

namespace dlpipe::augment {

/// An image with its own pixels.
struct OwnedImage {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;

  OwnedImage(int width_in, int height_in, int channels_in = 3)
      : width(width_in),
        height(height_in),
        channels(channels_in),
        pixels(size_t(width_in) * size_t(height_in) * size_t(channels_in)) {}
  ImageView view() { return {pixels.data(), width, height, channels, ptrdiff_t{width} * channels}; }
  ConstImageView view() const {
    return {pixels.data(), width, height, channels, ptrdiff_t{width} * channels};
  }
  uint8_t at(int x, int y, int c = 0) const {
    return pixels[(size_t(y) * size_t(width) + size_t(x)) * size_t(channels) + size_t(c)];
  }
  OwnedImage part(const Region& r) const {
    OwnedImage out(r.width, r.height, channels);
    for (int y = 0; y < r.height; ++y) {
      for (int x = 0; x < r.width; ++x) {
        for (int c = 0; c < channels; ++c) {
          out.pixels[(size_t(y) * size_t(r.width) + size_t(x)) * size_t(channels) + size_t(c)] =
              at(r.x + x, r.y + y, c);
        }
      }
    }
    return out;
  }
  OwnedImage mirrored() const {
    OwnedImage out = *this;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < channels; ++c) {
          out.pixels[(size_t(y) * size_t(width) + size_t(x)) * size_t(channels) + size_t(c)] =
              at(width - 1 - x, y, c);
        }
      }
    }
    return out;
  }
  friend bool operator==(const OwnedImage& a, const OwnedImage& b) {
    return a.width == b.width && a.height == b.height && a.channels == b.channels && a.pixels == b.pixels;
  }
};

/// Noise: every pixel differs from its neighbours, so that a shift by one shows.
inline OwnedImage noise_image(int width, int height, int channels = 3, uint64_t seed = 1) {
  OwnedImage image(width, height, channels);
  RandomStream rng(seed, 7);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(rng.next_u32() >> 24);
  return image;
}

inline Chain parse_or_die(const std::string& expression) {
  auto chain = Chain::parse(expression);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  return chain.ok() ? *chain : Chain();
}

inline ChainPlan plan_or_die(const Chain& chain, const ImageSize& source, const SampleKey& key) {
  ChainPlan plan;
  const Status status = chain.plan(source, key, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

/// Cuts the source region out as a decoder would, and applies.
inline OwnedImage apply_plan(const Chain& chain, const OwnedImage& source, const ChainPlan& plan) {
  OwnedImage out(plan.out.width, plan.out.height, plan.out.channels);
  const OwnedImage decoded = source.part(plan.source_region);
  ChainScratch scratch;
  const Status status = chain.apply(plan, decoded.view(), out.view(), scratch);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}
inline OwnedImage run_chain(const Chain& chain, const OwnedImage& source, const SampleKey& key) {
  return apply_plan(chain, source, plan_or_die(chain, {source.width, source.height, source.channels}, key));
}
inline OwnedImage run_chain(const std::string& expression, const OwnedImage& source, const SampleKey& key) {
  return run_chain(parse_or_die(expression), source, key);
}

/// Of a blur with a parameter size: odd widths are drawn as often as each other, even numbers being the next odd one.
inline void expect_even_widths(const std::string& op) {
  struct Case {
    const char* size;
    int least;  // reaches
    int most;
  };
  for (const auto& [size, least, most] : {Case{"3..7", 1, 3}, {"4..8", 2, 4}, {"1..2", 0, 1}, {"6", 3, 3}}) {
    constexpr int kDraws = 3000;
    const Chain chain = parse_or_die(op + "(" + size + ")");
    std::vector<int> seen(8);
    for (int position = 0; position < kDraws; ++position)
      ++seen[static_cast<size_t>(
          plan_or_die(chain, {40, 30, 3}, {.seed = 5, .position = position}).draws[0].values[0])];
    for (int reach = 0; reach < 8; ++reach) {
      const double expected = reach < least || reach > most ? 0 : double{kDraws} / (most - least + 1);
      EXPECT_NEAR(seen[static_cast<size_t>(reach)], expected, 0.05 * expected)
          << op << "(" << size << ") of width " << 2 * reach + 1;
    }
  }
}

/// The error message of a parse that must fail.
inline std::string parse_error(const std::string& expression) {
  const auto chain = Chain::parse(expression);
  EXPECT_FALSE(chain.ok()) << expression;
  EXPECT_TRUE(chain.ok() || chain.status().code() == ErrorCode::kMisuse) << chain.status().message();
  return chain.status().message();
}

}  // namespace dlpipe::augment
