#include "dlpipe/engine/replay/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dlpipe/base/rng.h"

namespace dlpipe::engine::replay {
namespace {

void expect_sound(const std::vector<Lifetime>& blocks, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), blocks.size());
  for (size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % ArenaPlan::kAlignment, 0u);
    EXPECT_LE(plan.offsets[a] + blocks[a].bytes, plan.bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      const bool overlap = plan.offsets[a] < plan.offsets[b] + blocks[b].bytes &&
                           plan.offsets[b] < plan.offsets[a] + blocks[a].bytes;
      EXPECT_FALSE(together && overlap) << a << " and " << b;
    }
  }
}

TEST(ArenaPlan, BlocksOfOneTimeLieSideBySide) {
  const std::vector<Lifetime> blocks = {{100, 0, 1}, {64, 1, 2}, {1, 1, 1}};
  const ArenaPlan plan = plan_arena(blocks);
  expect_sound(blocks, plan);
  EXPECT_EQ(plan.bytes, 128u + 64 + 64);
}

TEST(ArenaPlan, ABlockTakesThePlaceOfOneThatIsOver) {
  const std::vector<Lifetime> blocks = {{640, 0, 3}, {640, 4, 9}, {64, 0, 9}};
  const ArenaPlan plan = plan_arena(blocks);
  expect_sound(blocks, plan);
  EXPECT_EQ(plan.bytes, 640u + 64);
}

TEST(ArenaPlan, TakesTheTightestGap) {
  // After call 3 there are gaps of 640 and of 192 bytes.
  const std::vector<Lifetime> blocks = {{1280, 0, 9}, {640, 0, 3}, {320, 0, 9},
                                        {192, 0, 3},  {192, 0, 9}, {192, 4, 9}};
  const ArenaPlan plan = plan_arena(blocks);
  expect_sound(blocks, plan);
  EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
}

TEST(ArenaPlan, NothingNeedsNoMemory) {
  EXPECT_EQ(plan_arena({}).bytes, 0u);
}

TEST(ArenaPlan, HoldsForBlocksDrawnAtRandom) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Lifetime> blocks;
    size_t most = 0;
    for (uint64_t i = 0; i < 120; ++i) {
      const uint64_t draw = philox_mix(seed, i);
      const size_t first = draw % 50;
      blocks.push_back({(draw >> 8) % 5000, first, first + (draw >> 32) % 12});
    }
    const ArenaPlan plan = plan_arena(blocks);
    expect_sound(blocks, plan);
    for (size_t call = 0; call < 64; ++call) {
      size_t bytes = 0;
      for (const Lifetime& block : blocks)
        bytes += block.first <= call && call <= block.last ? block.bytes : 0;
      most = std::max(most, bytes);
    }
    EXPECT_GE(plan.bytes, most);
    EXPECT_LE(plan.bytes, most * 3 / 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlpipe::engine::replay
