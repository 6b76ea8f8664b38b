#include <gtest/gtest.h>

#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(FindOptimizer, SuggestsTheNearestName) {
  const auto found = find_optimizer("adaw");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(found.status().message().find("did you mean 'ada"), std::string::npos)
      << found.status().message();
}

TEST(FindOptimizer, EveryOptimizerHasHelp) {
  EXPECT_GE(optimizer_table().size(), 3u);
  for (const OptimizerRecord* record : optimizer_table()) EXPECT_GT(std::string(record->help).size(), 10u);
}

}  // namespace
}  // namespace dlpipe::engine
