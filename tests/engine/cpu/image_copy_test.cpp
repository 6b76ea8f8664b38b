#include "engine/cpu/loops/image_copy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/core/isa.h"

namespace dlpipe::engine::cpu {
namespace {

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 251) - 125.0f;  // exact in bf16
  return values;
}

class ImageCopyTest : public testing::TestWithParam<Isa> {
 protected:
  ImageCopyTest() : limit_(GetParam()) {}
  LimitIsa limit_;
};

TEST_P(ImageCopyTest, BlockedHoldsEveryPixelsBlocksOneAfterAnother) {
  for (int block : {8, 16}) {
    const ImageRun run{2, 37, 2 * block, 2 * block};
    const std::vector<float> plain = ramp(2 * 37 * 2 * block);
    std::vector<float> blocked(plain.size());
    plain_to_blocked(run, block, plain.data(), blocked.data());
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t p = 0; p < 37; ++p) {
        for (int64_t c = 0; c < 2 * block; ++c) {
          const int64_t at = ((n * 2 + c / block) * 37 + p) * block + c % block;
          ASSERT_EQ(blocked[static_cast<size_t>(at)],
                    plain[static_cast<size_t>((n * 37 + p) * 2 * block + c)]);
        }
      }
    }
    std::vector<float> back(plain.size());
    blocked_to_plain(run, block, blocked.data(), back.data());
    EXPECT_EQ(back, plain);
  }
}

TEST_P(ImageCopyTest, PartsOfThePlainChannelsLeaveTheOthersAlone) {
  const ImageRun run{2, 5, 8, 24};  // channels 8 .. 15 of 24
  const std::vector<float> part = ramp(2 * 5 * 8);
  std::vector<BFloat16> plain(2 * 5 * 24, BFloat16(1.0f));
  blocked_to_plain(run, 8, part.data(), plain.data() + 8);
  std::vector<float> back(part.size());
  plain_to_blocked(run, 8, plain.data() + 8, back.data());
  EXPECT_EQ(back, part);
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool other = i % 24 < 8 || i % 24 >= 16;
    EXPECT_TRUE(!other || static_cast<float>(plain[i]) == 1.0f) << i;
  }
}

TEST_P(ImageCopyTest, PlanesAndBack) {
  const ImageRun run{2, 11, 3, 3};
  const std::vector<float> plain = ramp(2 * 11 * 3);
  std::vector<float> planes(plain.size());
  plain_to_planes(run, plain.data(), planes.data());
  EXPECT_EQ(planes[0], plain[0]);
  EXPECT_EQ(planes[1], plain[3]);
  EXPECT_EQ(planes[11], plain[1]);
  std::vector<float> back(plain.size());
  planes_to_plain(run, planes.data(), back.data());
  EXPECT_EQ(back, plain);
}

TEST_P(ImageCopyTest, NarrowsLikeBFloat16DoesIncludingNanAndTies) {
  std::vector<float> values = ramp(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3.0f;
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[4] = std::numeric_limits<float>::infinity();
  values[5] = -std::numeric_limits<float>::infinity();
  values[6] = 1.00390625f;  // halfway: to even
  values[7] = 1.01171875f;
  values[8] = std::bit_cast<float>(0x7f800001u);  // a NaN whose upper half alone would be infinity
  values[9] = std::numeric_limits<float>::max();
  values[10] = -0.0f;
  std::vector<BFloat16> low(values.size());
  narrow(values.data(), low.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(low[i].bits, BFloat16(values[i]).bits) << i;
  std::vector<float> wide(values.size());
  widen(low.data(), wide.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(static_cast<float>(low[i]))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, ImageCopyTest, testing::Values(Isa::kAvx512, Isa::kAvx2, Isa::kBaseline));

}  // namespace
}  // namespace dlpipe::engine::cpu
