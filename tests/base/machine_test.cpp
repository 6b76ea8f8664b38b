#include "base/machine.h"

#include <gtest/gtest.h>

#include <sched.h>
#include "base/counters.h"

#include <vector>

namespace dlpipe {
namespace {

TEST(Machine, ThreadsFollowTheAffinityMask) {
  cpu_set_t former;
  ASSERT_EQ(sched_getaffinity(0, sizeof(former), &former), 0);
  const int all = available_threads();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&former));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &former)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(available_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(former), &former), 0);
}

TEST(Machine, MemoryIsReadFromTheSystem) {
  EXPECT_GT(available_memory_bytes(), uint64_t{64} << 20);
  const uint64_t before = resident_bytes();
  EXPECT_GT(before, 0u);
  const std::vector<char> block(64 << 20, 1);
  asm volatile("" : : "r"(block.data()) : "memory");  // no compiler leaves it out
  EXPECT_GE(resident_bytes() + (8 << 20), before + block.size());
  EXPECT_GE(peak_resident_bytes() + (1 << 20), resident_bytes());
  EXPECT_FALSE(cpu_model().empty());
}

TEST(Machine, TheProcessBeganBeforeNowAndNotLongAgo) {
  const int64_t first = process_begin_ns();
  constexpr int64_t kTick = 10'000'000, kHour = 3600 * int64_t{1'000'000'000};
  EXPECT_LE(first, now_ns());
  EXPECT_GT(first, now_ns() - kHour);
  EXPECT_NEAR(static_cast<double>(process_begin_ns()), static_cast<double>(first), kTick)
      << "a moment that does not move";
}

}  // namespace
}  // namespace dlpipe
