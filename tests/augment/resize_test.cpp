// The fast resize against its twin by plain loops, on every instruction set of this machine, and its manners
// with memory.
#include "augment/resize.h"

#include <gtest/gtest.h>

#include <cstring>

#include "augment/resize_kernels.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/guarded_bytes.h"
#include "tests/augment/random_geometry.h"

namespace dlpipe::augment {
namespace {

TEST(Resize, EqualsItsTwinOnEveryInstructionSet) {
  on_every_target([] {
    RandomStream rng(21, 0);
    std::vector<std::byte> work;
    for (int round = 0; round < 600; ++round) {
      const int channels = 1 + round % 4;
      const int width = random_size(rng, 300);
      const int height = random_size(rng, 300);
      ResizeGeometry geometry = whole_resize(width, height, random_size(rng, 150), random_size(rng, 150));
      if (round % 3 == 0) geometry.box = random_part(rng, width, height);
      if (round % 5 == 0) geometry.window = random_part(rng, geometry.out_width, geometry.out_height);
      const Region support = resize_support(geometry);
      const OwnedImage source = noise_image(support.width, support.height, channels, uint64_t(round));
      OwnedImage expected(geometry.window.width, geometry.window.height, channels);
      OwnedImage out = expected;
      const bool mirror = round % 2 == 1;
      resize_scalar(geometry, source.view(), expected.view(), mirror);
      resize(geometry, source.view(), out.view(), mirror, work);
      ASSERT_EQ(out, expected) << width << "x" << height << "x" << channels << " to " << geometry.out_width
                               << "x" << geometry.out_height << ", round " << round;
    }
  });
}

TEST(Resize, AWindowIsThatPartOfTheWholeAndNeedsOnlyItsSupport) {
  const OwnedImage source = noise_image(210, 160);
  RandomStream rng(4, 4);
  std::vector<std::byte> work;
  for (const auto& [out_width, out_height] : {std::pair{90, 40}, {50, 100}, {300, 20}, {250, 300}}) {
    ResizeGeometry geometry = whole_resize(210, 160, out_width, out_height);
    OwnedImage whole(out_width, out_height);
    resize(geometry, source.view(), whole.view(), false, work);
    for (int round = 0; round < 50; ++round) {
      geometry.window = random_part(rng, out_width, out_height);
      OwnedImage out(geometry.window.width, geometry.window.height);
      resize(geometry, source.part(resize_support(geometry)).view(), out.view(), false, work);
      ASSERT_EQ(out, whole.part(geometry.window));
    }
  }
}

TEST(Resize, KeepsAConstantImageConstant) {
  std::vector<std::byte> work;
  for (const int value : {0, 1, 127, 254, 255}) {
    OwnedImage source(123, 77);
    std::fill(source.pixels.begin(), source.pixels.end(), static_cast<uint8_t>(value));
    for (const auto& [width, height] : {std::pair{50, 50}, {200, 30}, {1, 1}, {124, 78}}) {
      OwnedImage out(width, height);
      resize(whole_resize(123, 77, width, height), source.view(), out.view(), false, work);
      for (const uint8_t pixel : out.pixels) ASSERT_EQ(pixel, value);
    }
  }
}

TEST(Resize, TouchesNothingBehindTheImages) {
  on_every_target([] {
    RandomStream rng(33, 0);
    for (int round = 0; round < 200; ++round) {
      const int channels = std::array{1, 3, 4}[size_t(round % 3)];
      const int width = random_size(rng, 60);
      const int height = random_size(rng, 60);
      const int out_width = random_size(rng, 60);
      const int out_height = random_size(rng, 60);
      const OwnedImage source = noise_image(width, height, channels);
      GuardedBytes in_bytes(source.pixels.size());
      std::memcpy(in_bytes.data, source.pixels.data(), source.pixels.size());
      OwnedImage expected(out_width, out_height, channels);
      GuardedBytes out_bytes(expected.pixels.size());
      const ResizeGeometry geometry = whole_resize(width, height, out_width, out_height);
      std::vector<std::byte> work;
      ConstImageView in = source.view();
      in.data = in_bytes.data;
      ImageView out = expected.view();
      out.data = out_bytes.data;
      resize(geometry, in, out, false, work);
      resize_scalar(geometry, source.view(), expected.view(), false);
      ASSERT_EQ(std::memcmp(out_bytes.data, expected.pixels.data(), expected.pixels.size()), 0);
    }
  });
}

TEST(Resize, WritesNothingBetweenTheRowsOfAViewAndReadsAnyStride) {
  on_every_target([] {
    for (const int channels : {1, 3, 4}) {
      const OwnedImage frame = noise_image(90, 70, channels);
      const Region part{7, 5, 61, 47};
      ConstImageView in = frame.view();
      in = {in.row(part.y) + part.x * channels, part.width, part.height, channels, in.stride};
      OwnedImage expected(30, 23, channels);
      const ResizeGeometry geometry = whole_resize(part.width, part.height, 30, 23);
      resize_scalar(geometry, frame.part(part).view(), expected.view(), false);
      OwnedImage canvas = noise_image(50, 40, channels, 9);
      const OwnedImage before = canvas;
      ImageView out = canvas.view();
      out = {out.row(4) + 6 * channels, 30, 23, channels, out.stride};
      std::vector<std::byte> work;
      resize(geometry, in, out, false, work);
      ASSERT_EQ(canvas.part({6, 4, 30, 23}), expected);
      for (int y = 0; y < 40; ++y) {
        for (int x = 0; x < 50; ++x) {
          if (y >= 4 && y < 27 && x >= 6 && x < 36) continue;
          for (int c = 0; c < channels; ++c)
            ASSERT_EQ(canvas.at(x, y, c), before.at(x, y, c)) << x << "," << y;
        }
      }
    }
  });
}

TEST(Resize, AWarmScratchIsNotAllocatedAgain) {
  std::vector<std::byte> work;
  const OwnedImage source = noise_image(300, 200);
  OwnedImage out(64, 64);
  resize(whole_resize(300, 200, 64, 64), source.view(), out.view(), false, work);
  const std::byte* memory = work.data();
  const OwnedImage smaller = noise_image(200, 150);
  resize(whole_resize(200, 150, 64, 64), smaller.view(), out.view(), false, work);
  EXPECT_EQ(work.data(), memory);
  EXPECT_LT(work.size(), 200000u);  // rows of a group and a ring, not a whole image between the passes
}

TEST(WeightPair, HoldsWeightsOfBothSigns) {
  for (const int32_t weight :
       {0, 1, 0x7fff, 0x8000, (1 << 22) - 1, 1 << 22, -1, -0x8000, -0x8001, -(1 << 21)}) {
    const WeightPair pair = weight_pair(weight, (1 << 22) - weight);
    const auto value = [&](int shift) {
      return (static_cast<int16_t>(pair.high >> shift & 0xffff) * (1 << kLowBits)) +
             static_cast<int16_t>(pair.low >> shift & 0xffff);
    };
    EXPECT_EQ(value(0), weight);
    EXPECT_EQ(value(16), (1 << 22) - weight);
  }
}

}  // namespace
}  // namespace dlpipe::augment
