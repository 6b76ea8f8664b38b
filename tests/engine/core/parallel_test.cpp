#include "engine/core/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <tbb/global_control.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "dlpipe/tensor.h"
#include "engine/core/kernel_table.h"

namespace dlpipe::engine {
namespace {

class ParallelTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_engine_threads(GetParam()); }
};

TEST_P(ParallelTest, RunsEverySliceOnce) {
  EXPECT_EQ(engine_threads(), GetParam());
  std::vector<std::atomic<int>> runs(1000);
  parallel_slices(1000, [&](int64_t slice) { ++runs[static_cast<size_t>(slice)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  parallel_slices(0, [](int64_t) { FAIL() << "no slice to run"; });
}

TEST_P(ParallelTest, RangesCoverEverythingWithAShortLastOne) {
  std::vector<std::atomic<int>> runs(103);
  std::atomic<int> calls = 0;
  parallel_ranges(103, 10, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(begin % 10, 0);
    EXPECT_EQ(end - begin, begin == 100 ? 3 : 10);
    for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
  });
  EXPECT_EQ(calls, 11);
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST_P(ParallelTest, NeverUsesMoreThreadsThanAsked) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_slices(200, [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(threads.size(), static_cast<size_t>(GetParam()));
}

// A pool that runs slices one after another gives all the right answers, late.
TEST_P(ParallelTest, TwoSlicesRunAtOnceWhereThereAreTwoThreads) {
  if (GetParam() < 2) GTEST_SKIP() << "one thread";
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  std::atomic<int> met = 0;
  parallel_slices(2, [&](int64_t) {
    std::unique_lock lock(mutex);
    ++there;
    changed.notify_all();
    if (changed.wait_for(lock, std::chrono::seconds(30), [&] { return there == 2; })) ++met;
  });
  EXPECT_EQ(met, 2);
}

TEST_P(ParallelTest, BodiesChooseKernelsAsTheirCallerDoes) {
  KernelTable table;
  for (const bool inference : {true, false, true}) {
    const UseKernelTable use(&table);
    const ScopedValue<thread_state::inference> mode(inference);
    std::atomic<int> wrong = 0;
    parallel_slices(200, [&](int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // time for all threads
      if (is_inference() != inference || &kernel_table() != &table) ++wrong;
    });
    EXPECT_EQ(wrong, 0) << inference;
  }
}

TEST_P(ParallelTest, BodiesSeeOneOpenMpThreadAndTheCallerGetsItsOwnBack) {
  omp_set_num_threads(5);
  std::atomic<int> wrong = 0;
  parallel_slices(100, [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (omp_get_max_threads() != 1) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(omp_get_max_threads(), 5);
}

TEST_P(ParallelTest, FirstExceptionReachesTheCaller) {
  EXPECT_THROW(parallel_slices(50,
                               [](int64_t slice) {
                                 if (slice == 7) throw std::runtime_error("slice 7");
                               }),
               std::runtime_error);
  std::atomic<int> runs = 0;
  parallel_slices(10, [&](int64_t) { ++runs; });  // and the pool still works
  EXPECT_EQ(runs, 10);
}

TEST_P(ParallelTest, NestedCallsKeepTheScratchOfTheOuterBody) {
  std::atomic<int> wrong = 0;
  parallel_slices(64, [&](int64_t slice) {
    auto* mine = worker_scratch(0, 256);
    std::memset(mine, static_cast<int>(slice), 256);
    std::atomic<int> inner = 0;
    parallel_slices(16, [&](int64_t) {
      std::this_thread::yield();
      ++inner;
    });
    if (inner != 16) ++wrong;
    for (int i = 0; i < 256; ++i) {
      if (mine[i] != static_cast<std::byte>(slice)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ParallelTest, SeveralCallersAtOnce) {
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        parallel_slices(50, [&](int64_t slice) { sum += slice; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 20 * (49 * 50 / 2));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 3, 8));

TEST(ScratchTest, GrowsStaysAndIsAligned) {
  auto* small = worker_scratch(2, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(worker_scratch(2, 50), small);
  auto* large = worker_scratch(2, 1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 64, 0u);
  EXPECT_EQ(worker_scratch(2, 100), large);
  EXPECT_NE(worker_scratch(3, 100), large);
  const size_t held = worker_scratch_bytes();
  std::thread([] { worker_scratch(0, 1 << 20); }).join();
  EXPECT_EQ(worker_scratch_bytes(), held);  // a thread gives its scratch back when it ends
}

// A loader of this process decodes with as many as it asked for.
TEST(WorkersTest, AnEngineOfOneThreadLeavesOthersTheirs) {
  const auto allowed = [] {
    return tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  };
  set_engine_threads(1);
  EXPECT_EQ(allowed(), 1u);
  const WorkerLimit of_a_loader(5);
  EXPECT_EQ(allowed(), 5u);
  set_engine_threads(2);
  EXPECT_EQ(allowed(), 5u);
}

TEST(ScratchTest, BeginsAnewWithTheNextBody) {
  set_engine_threads(1);
  const auto body = [](size_t bytes) { parallel_slices(1, [&](int64_t) { worker_scratch(0, bytes); }); };
  body(1 << 20);
  EXPECT_GE(largest_worker_scratch_bytes(), 1u << 20);
  const size_t held = worker_scratch_bytes();
  renew_worker_scratch();
  EXPECT_EQ(largest_worker_scratch_bytes(), 0u);
  EXPECT_EQ(worker_scratch_bytes(), held) << "a body that runs now keeps what it has";
  parallel_slices(1, [&](int64_t) {
    auto* outer = worker_scratch(1, 4096);
    *outer = std::byte{7};
    renew_worker_scratch();
    body(4096);  // within a body
    EXPECT_EQ(*outer, std::byte{7});
  });
  EXPECT_LT(worker_scratch_bytes(), held);
  body(4096);
  EXPECT_EQ(largest_worker_scratch_bytes(), 4096u);
}

}  // namespace
}  // namespace dlpipe::engine
