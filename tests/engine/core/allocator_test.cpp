#include "engine/core/allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "dlpipe/tensor.h"
#include "tests/base/counted_new.h"

namespace dlpipe::engine {
namespace {

TEST(Allocator, HandsTheSameBlockOutAgain) {
  release_cached_blocks();
  const void* first = Tensor::empty({1000, 1000}).raw();
  const AllocatorStatistics before = allocator_statistics();
  EXPECT_EQ(Tensor::empty({1000, 1000}).raw(), first);
  EXPECT_EQ(Tensor::empty({950, 1000}).raw(), first) << "a slightly smaller request reuses the block";
  EXPECT_EQ(allocator_statistics().device_allocations, before.device_allocations);
}

TEST(Allocator, CountsWhatIsUsedAndCached) {
  release_cached_blocks();
  const AllocatorStatistics before = allocator_statistics();
  {
    const Tensor x = Tensor::empty({1 << 20});
    EXPECT_GE(allocator_statistics().used_bytes, before.used_bytes + (4u << 20));
    EXPECT_EQ(allocator_statistics().cached_bytes, 0u);
  }
  EXPECT_EQ(allocator_statistics().used_bytes, before.used_bytes);
  EXPECT_GE(allocator_statistics().cached_bytes, 4u << 20);
  EXPECT_GE(release_cached_blocks(), 4u << 20);
  EXPECT_EQ(allocator_statistics().cached_bytes, 0u);
}

TEST(Allocator, BlocksAreAlignedAndMayBeEmpty) {
  for (int64_t size : {0, 1, 3, 1000, 70001}) {
    const Tensor x = Tensor::empty({size});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % 64, 0u);
  }
}

TEST(Allocator, AbsurdRequestsAreErrorsThatNameTheSize) {
  try {
    Tensor::empty({int64_t{1} << 50});
    FAIL() << "4 PB were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("4.0 PiB"), std::string::npos) << error.what();
  }
}

// deallocate_block is noexcept: memory for its notes would have to be there.
TEST(Allocator, GivingBlocksBackTakesNoMemory) {
  release_cached_blocks();
  constexpr size_t kSmall = 1000, kLarge = size_t{1} << 20;
  std::vector<Block> blocks;
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(allocate_block(cpu_device(), kSmall * static_cast<size_t>(i % 20 + 1)));
    if (i % 3 == 0) blocks.push_back(allocate_block(cpu_device(), kLarge * static_cast<size_t>(i % 7 + 1)));
  }
  const auto give_back = [&](size_t first, size_t step) {
    for (size_t i = first; i < blocks.size(); i += step) deallocate_block(cpu_device(), blocks[i]);
  };
  const test::NewCount count = test::new_count_of([&] { give_back(0, 2), give_back(1, 2); });
  EXPECT_EQ(count.calls, 0);
  EXPECT_GT(release_cached_blocks(), 100 * kLarge);
}

TEST(Allocator, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        const Tensor x = Tensor::full({100 + i}, i);
        ASSERT_EQ(x.data<float>()[99 + i], static_cast<float>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dlpipe::engine
