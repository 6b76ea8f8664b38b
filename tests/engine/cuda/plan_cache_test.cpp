#include "dlpipe/engine/cuda/libraries/plan_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace dlpipe::engine::cuda {
namespace {

using Cache = PlanCache<int, std::unique_ptr<std::string>>;

std::unique_ptr<std::string> plan(const char* text) {
  return std::make_unique<std::string>(text);
}

TEST(PlanCache, FindsWhatWasInserted) {
  Cache cache(4);
  EXPECT_EQ(cache.find(1), nullptr);
  EXPECT_EQ(*cache.insert(1, plan("one")), "one");
  cache.insert(2, plan("two"));
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(**cache.find(1), "one");
  EXPECT_EQ(**cache.find(2), "two");
  EXPECT_EQ(cache.size(), 2u);
}

TEST(PlanCache, DropsWhatWasNotAskedForForLongest) {
  Cache cache(3);
  for (int key = 0; key < 3; ++key) cache.insert(key, plan("x"));
  EXPECT_TRUE(cache.is_full());
  EXPECT_NE(cache.find(0), nullptr);  // so 1 is the oldest
  cache.insert(3, plan("x"));
  EXPECT_EQ(cache.find(1), nullptr);
  for (const int key : {0, 2, 3}) EXPECT_NE(cache.find(key), nullptr) << key;
  for (int key = 10; key < 1000; ++key) {
    cache.insert(key, plan("x"));
    ASSERT_EQ(cache.size(), 3u);
  }
  EXPECT_EQ(cache.find(0), nullptr);
  EXPECT_NE(cache.find(999), nullptr);
}

TEST(PlanCache, PlansOfACapturedGraphStay) {
  Cache cache(2);
  cache.insert(1, plan("graph's"));
  EXPECT_NE(cache.find(1, true), nullptr);
  for (int key = 10; key < 20; ++key) cache.insert(key, plan("x"));
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(**cache.find(1), "graph's");
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_NE(cache.find(19, true), nullptr);
  cache.insert(20, plan("one more"));  // than the bound: none may go
  EXPECT_EQ(cache.size(), 3u);
  cache.insert(21, plan("x"));
  EXPECT_EQ(cache.find(20), nullptr);
  EXPECT_EQ(cache.size(), 3u);
}

}  // namespace
}  // namespace dlpipe::engine::cuda
