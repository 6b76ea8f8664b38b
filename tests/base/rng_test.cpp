#include "dlpipe/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dlpipe {
namespace {

// The known-answer vectors that the authors of Philox publish with their library (Random123, kat_vectors).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnEveryPartOfItsKey) {
  const SampleKey key{1, 2, 3, 0};
  auto first = [](SampleKey k, uint32_t op) { return RandomStream(k, op).next_u32(); };
  const uint32_t base = first(key, 0);
  EXPECT_EQ(base, first(key, 0));
  EXPECT_NE(base, first(key, 1));
  EXPECT_NE(base, first({9, 2, 3, 0}, 0));
  EXPECT_NE(base, first({1, 9, 3, 0}, 0));
  EXPECT_NE(base, first({1, 2, 9, 0}, 0));
  EXPECT_NE(base, first({1, 2, 3, 1}, 0));
}

TEST(RandomStream, UniformStaysInItsIntervalAndFillsIt) {
  RandomStream stream(7, 0);
  double sum = 0;
  float low = 1;
  float high = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = stream.uniform();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    low = std::min(low, u);
    high = std::max(high, u);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // 5 standard deviations of the mean
  EXPECT_LT(low, 1e-3f);
  EXPECT_GT(high, 1 - 1e-3f);
}

TEST(RandomStream, BelowIsUnbiased) {
  RandomStream stream(11, 0);
  std::vector<int> counts(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts[stream.below(7)];
  for (int count : counts) EXPECT_NEAR(count, kDraws / 7, 5 * std::sqrt(kDraws / 7.0));
}

TEST(RandomStream, NormalHasUnitVariance) {
  RandomStream stream(13, 0);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.03);
}

}  // namespace
}  // namespace dlpipe
