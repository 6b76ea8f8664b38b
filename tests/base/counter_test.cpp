#include "base/counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace dlpipe {
namespace {

TEST(Counter, SumsOverThreadsThatComeAndGo) {
  Counter counter;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) counter.add(1);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(counter.value(), 20 * 8 * 1000);
}

TEST(ThreadSlot, IsReusedAfterItsThreadEnds) {
  int highest = 0;
  for (int i = 0; i < 200; ++i) {
    std::thread([&] { highest = std::max(highest, thread_slot()); }).join();
  }
  EXPECT_LT(highest, 100);
}

}  // namespace
}  // namespace dlpipe
