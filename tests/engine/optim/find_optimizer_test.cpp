#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "dlpipe/optim.h"

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

// The command line fills options in from the record, a program may leave its OptimizerArguments as they are.
TEST(FindOptimizer, ArgumentsThatAProgramLeavesOutAreTheDefaultsOfTheOptions) {
  const OptimizerArguments arguments;
  const std::map<std::string, double> members = {{"momentum", arguments.momentum},
                                                 {"nesterov", arguments.nesterov},
                                                 {"decoupled", arguments.decoupled},
                                                 {"beta1", arguments.beta1},
                                                 {"beta2", arguments.beta2},
                                                 {"epsilon", arguments.epsilon},
                                                 {"muon-momentum", arguments.muon.momentum},
                                                 {"muon-iterations", arguments.muon.iterations},
                                                 {"muon-normalize", arguments.muon.normalize}};
  size_t compared = 0;
  for (const OptimizerRecord* record : optimizer_table()) {
    for (const OptionDefault& option : record->options) {
      const auto member = members.find(option.name);
      if (member == members.end()) continue;
      const std::string_view text = option.value;
      const double value = text == "true" ? 1 : text == "false" ? 0 : std::stod(option.value);
      EXPECT_EQ(member->second, value) << record->name << " --" << option.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 2 * members.size());
}

}  // namespace
}  // namespace dlpipe::engine
