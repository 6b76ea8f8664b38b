// The filters with negative weights against their twin by plain loops, on every instruction set of this machine.
#include "augment/resize.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/guarded_bytes.h"
#include "tests/augment/random_geometry.h"

namespace dlpipe::augment {
namespace {

constexpr std::array kFilters = {Interpolation::kArea, Interpolation::kBicubic, Interpolation::kLanczos};

/// Black and white, so that negative weights give values beyond both ends.
OwnedImage hard_image(int width, int height, int channels, uint64_t seed) {
  OwnedImage image = noise_image(width, height, channels, seed);
  for (uint8_t& value : image.pixels) value = value < 128 ? 0 : 255;
  return image;
}

TEST(Resample, EqualsItsTwinOnEveryInstructionSetAndTouchesNothingBehindTheImages) {
  on_every_target([] {
    RandomStream rng(12, 0);
    std::vector<std::byte> work;
    for (int round = 0; round < 400; ++round) {
      const Interpolation filter = kFilters[size_t(round) % kFilters.size()];
      const int channels = 1 + round % 4;
      const int width = random_size(rng, 200);
      const int height = random_size(rng, 200);
      // Every eighth leaves an axis as it is.
      ResizeGeometry geometry = whole_resize(width, height, round % 8 == 1 ? width : random_size(rng, 150),
                                             round % 8 == 2 ? height : random_size(rng, 150));
      if (round % 5 == 0) geometry.window = random_part(rng, geometry.out_width, geometry.out_height);
      const Region support = resample_support(filter, geometry);
      const OwnedImage source = hard_image(support.width, support.height, channels, uint64_t(round));
      const bool mirror = round % 2 == 1;
      OwnedImage expected(geometry.window.width, geometry.window.height, channels);
      resample_scalar(filter, geometry, source.view(), expected.view(), mirror);
      GuardedBytes in_bytes(source.pixels.size());
      std::memcpy(in_bytes.data, source.pixels.data(), source.pixels.size());
      GuardedBytes out_bytes(expected.pixels.size());
      ConstImageView in = source.view();
      in.data = in_bytes.data;
      OwnedImage result = expected;
      ImageView out = result.view();
      out.data = out_bytes.data;
      resample(filter, geometry, in, out, mirror, work);
      std::memcpy(result.pixels.data(), out_bytes.data, result.pixels.size());
      ASSERT_EQ(result, expected) << width << "x" << height << "x" << channels << " to " << geometry.out_width
                                  << "x" << geometry.out_height << ", round " << round;
    }
  });
}

TEST(Resample, AWindowIsThatPartOfTheWholeAndNeedsOnlyItsSupport) {
  const OwnedImage source = noise_image(110, 90);
  RandomStream rng(4, 4);
  std::vector<std::byte> work;
  for (const Interpolation filter : kFilters) {
    for (const auto& [out_width, out_height] :
         {std::pair{40, 30}, {150, 20}, {130, 200}, {110, 30}, {60, 90}, {110, 90}}) {
      ResizeGeometry geometry = whole_resize(110, 90, out_width, out_height);
      OwnedImage whole(out_width, out_height);
      resample(filter, geometry, source.view(), whole.view(), false, work);
      for (int round = 0; round < 30; ++round) {
        geometry.window = random_part(rng, out_width, out_height);
        OwnedImage out(geometry.window.width, geometry.window.height);
        resample(filter, geometry, source.part(resample_support(filter, geometry)).view(), out.view(), false,
                 work);
        ASSERT_EQ(out, whole.part(geometry.window)) << out_width << "x" << out_height << ", window at "
                                                    << geometry.window.x << "," << geometry.window.y;
      }
    }
  }
}

TEST(Resample, TakesWhatItSaysOfMemory) {
  RandomStream rng(9, 1);
  for (int round = 0; round < 60; ++round) {
    const Interpolation filter = kFilters[size_t(round) % kFilters.size()];
    const int width = random_size(rng, 2000), height = random_size(rng, 60);
    const ResizeGeometry geometry = whole_resize(width, height, random_size(rng, 300), random_size(rng, 100));
    const OwnedImage source = noise_image(width, height);
    OwnedImage out(geometry.out_width, geometry.out_height);
    std::vector<std::byte> work;
    resample(filter, geometry, source.view(), out.view(), false, work);
    EXPECT_EQ(work.size(), resample_work_bytes(filter, geometry, 3));
  }
}

}  // namespace
}  // namespace dlpipe::augment
