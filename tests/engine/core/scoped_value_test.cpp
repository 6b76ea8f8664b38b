#include "dlpipe/tensor.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace dlpipe {
namespace {

std::string& mood() {
  thread_local std::string t_mood = "calm";
  return t_mood;
}
using UseMood = ScopedValue<mood>;

TEST(ScopedValue, IsThereForTheScopeAndScopesNest) {
  {
    const UseMood outer("glad");
    EXPECT_EQ(mood(), "glad");
    {
      const UseMood inner("cross");
      EXPECT_EQ(mood(), "cross");
    }
    EXPECT_EQ(mood(), "glad");
  }
  EXPECT_EQ(mood(), "calm");
}

TEST(ScopedValue, EndsWithAnExceptionToo) {
  try {
    const UseMood use("cross");
    throw std::runtime_error("");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(mood(), "calm");
  }
  EXPECT_EQ(mood(), "calm");
}

TEST(ScopedValue, IsTheThreadsOwn) {
  const UseMood use("glad");
  std::thread([] {
    EXPECT_EQ(mood(), "calm");
    const UseMood other("cross");
    EXPECT_EQ(mood(), "cross");
  }).join();
  EXPECT_EQ(mood(), "glad");
}

}  // namespace
}  // namespace dlpipe
