#include "engine/cuda/libraries/loaded_library.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

/// A library that fails in turn with these, and then has a plan.
class InsertBuilt : public testing::Test {
 protected:
  Result<int> build() {
    ++built_;
    if (failures_.empty()) return 7;
    const ErrorCode code = failures_.front();
    failures_.erase(failures_.begin());
    return Status(code, "[cuda] no");
  }
  const Result<int>& insert() {
    return insert_built(
        plans_, 1, [this] { return build(); }, [this] { return ++released_, free_bytes_; });
  }
  ErrorCode thrown() {
    try {
      insert();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kOk;
  }

  PlanCache<int, Result<int>> plans_{4};
  std::vector<ErrorCode> failures_;
  size_t free_bytes_ = 100;
  int built_ = 0, released_ = 0;
};

TEST_F(InsertBuilt, KeepsPlansAndRefusals) {
  EXPECT_EQ(*insert(), 7);
  ASSERT_NE(plans_.find(1), nullptr);
  plans_ = PlanCache<int, Result<int>>(4);
  failures_ = {ErrorCode::kUnsupported};
  EXPECT_EQ(insert().status().code(), ErrorCode::kUnsupported);
  ASSERT_NE(plans_.find(1), nullptr);
  EXPECT_EQ(released_, 0);
}

TEST_F(InsertBuilt, ReleasesMemoryAndBuildsOnceMore) {
  failures_ = {ErrorCode::kOutOfMemory};
  EXPECT_EQ(*insert(), 7);
  EXPECT_EQ(released_, 1);
  EXPECT_EQ(built_, 2);
}

TEST_F(InsertBuilt, OtherErrorsAreThrownAndForgotten) {
  failures_ = {ErrorCode::kOutOfMemory, ErrorCode::kOutOfMemory};
  EXPECT_EQ(thrown(), ErrorCode::kOutOfMemory);
  free_bytes_ = 0;
  failures_ = {ErrorCode::kOutOfMemory};
  EXPECT_EQ(thrown(), ErrorCode::kOutOfMemory) << "nothing was there to be released";
  failures_ = {ErrorCode::kInternal};
  EXPECT_EQ(thrown(), ErrorCode::kInternal);
  EXPECT_EQ(plans_.find(1), nullptr);
  EXPECT_EQ(*insert(), 7);
}

}  // namespace
}  // namespace dlpipe::engine::cuda
