#include "engine/core/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "dlpipe/tensor.h"

namespace dlpipe::engine {
namespace {

constexpr size_t kGrain = Arena::kGrain;

std::byte* take(Arena& arena, size_t grains) {
  return static_cast<std::byte*>(value_or_throw(arena.allocate(grains * kGrain)));
}

TEST(Arena, ALargeBlockServesSmallOnesAndTheyServeALargeOneAgain) {
  Arena arena(cpu_device(), 512 * kGrain);
  std::byte* const whole = take(arena, 8);
  arena.deallocate(whole, 8 * kGrain);
  EXPECT_EQ(take(arena, 3), whole);
  EXPECT_EQ(take(arena, 3), whole + 3 * kGrain);
  EXPECT_EQ(take(arena, 2), whole + 6 * kGrain);
  EXPECT_EQ(arena.resident_bytes(), 0u);
  arena.deallocate(whole + 3 * kGrain, 3 * kGrain);
  EXPECT_EQ(take(arena, 4), whole + 8 * kGrain) << "three are free, four are not";
  arena.deallocate(whole + 6 * kGrain, 2 * kGrain);
  arena.deallocate(whole, 3 * kGrain);
  EXPECT_EQ(arena.resident_bytes(), 8 * kGrain);
  EXPECT_EQ(take(arena, 8), whole) << "joined with neighbours on both sides";
}

TEST(Arena, FullChunksAreFollowedByMore) {
  Arena arena(cpu_device(), 512 * kGrain);
  std::byte* const first = take(arena, 512);
  std::byte* const larger = take(arena, 1000);  // than a chunk
  std::memset(larger, 1, 1000 * kGrain);
  arena.deallocate(first, 512 * kGrain);
  EXPECT_EQ(take(arena, 1), first) << "the oldest chunk fills first";
}

TEST(Arena, GivesFreeMemoryBackAndKeepsBlocks) {
  Arena arena(cpu_device(), 512 * kGrain);
  std::byte* const kept = take(arena, 2);
  std::byte* const freed = take(arena, 16);
  std::byte* const last = take(arena, 1);
  std::memset(kept, 7, 2 * kGrain);
  std::memset(freed, 8, 16 * kGrain);
  arena.deallocate(freed, 16 * kGrain);
  EXPECT_EQ(arena.release(), 16 * kGrain);
  EXPECT_EQ(arena.resident_bytes(), 0u);
  EXPECT_EQ(arena.release(), 0u);
  EXPECT_EQ(kept[2 * kGrain - 1], std::byte{7});
  std::byte* const again = take(arena, 16);
  EXPECT_EQ(again, freed);
  EXPECT_EQ(again[100], std::byte{0}) << "its pages were given back";
  arena.deallocate(again, 16 * kGrain);
  arena.deallocate(kept, 2 * kGrain);
  arena.deallocate(last, kGrain);
  EXPECT_EQ(arena.release(), 19 * kGrain);
}

TEST(Arena, BlocksNeverOverlapInAnyOrder) {
  Arena arena(cpu_device(), 512 * kGrain);
  std::mt19937 random(5);
  struct Taken {
    size_t grains;
    uint8_t mark;
  };
  std::map<std::byte*, Taken> blocks;
  size_t used = 0, most = 0;
  for (int i = 0; i < 4000; ++i) {
    if (blocks.size() < 40 || random() % 2 == 0) {
      const size_t grains = 1 + random() % 24;
      std::byte* const block = take(arena, grains);
      const auto mark = static_cast<uint8_t>(i);
      std::memset(block, mark, grains * kGrain);
      ASSERT_TRUE(blocks.emplace(block, Taken{grains, mark}).second);
      used += grains;
      most = std::max(most, used);
    } else {
      const auto chosen = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
      const auto [block, taken] = *chosen;
      for (size_t at = 0; at < taken.grains * kGrain; at += 512) ASSERT_EQ(block[at], std::byte{taken.mark});
      arena.deallocate(block, taken.grains * kGrain);
      blocks.erase(chosen);
      used -= taken.grains;
    }
    ASSERT_LE(used * kGrain + arena.resident_bytes(), 2 * most * kGrain) << "holds twice what it ever needed";
  }
  for (const auto& [block, taken] : blocks) arena.deallocate(block, taken.grains * kGrain);
  EXPECT_GE(arena.release(), most * kGrain);
}

// What a training step does: forward fills, backward frees from the top and takes blocks of other sizes.
TEST(Arena, AStepHoldsLittleMoreThanItNeeds) {
  release_cached_blocks();
  const AllocatorStatistics before = allocator_statistics();
  reset_peak();
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> activations;
    for (int64_t layer = 1; layer <= 16; ++layer)
      activations.push_back(Tensor::empty({(17 - layer) * 70'000}));
    Tensor gradient;
    while (!activations.empty()) {
      gradient = Tensor::empty(activations.back().shape());
      activations.pop_back();
    }
  }
  const AllocatorStatistics after = allocator_statistics();
  const size_t most = after.peak_used_bytes - before.used_bytes;
  EXPECT_LE(after.cached_bytes, most + most / 50);
}

}  // namespace
}  // namespace dlpipe::engine
