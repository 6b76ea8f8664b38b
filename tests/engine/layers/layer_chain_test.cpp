// Chains of sections: where they are cut into stages.
#include "dlpipe/engine/layers/layer_chain.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dlpipe/engine/models/model.h"
#include "tests/engine/collective/simulated_ranks.h"

namespace dlpipe::engine {
namespace {

using test::on_ranks;

TEST(LayerChain, IsCutWhereTheDearestStageIsCheapest) {
  using Cuts = std::vector<size_t>;
  EXPECT_EQ(balanced_cuts({1, 1, 1, 1}, 2), (Cuts{0, 2, 4}));
  EXPECT_EQ(balanced_cuts({5, 1, 1, 1}, 2), (Cuts{0, 1, 4}));
  EXPECT_EQ(balanced_cuts({0, 1, 1, 1, 1, 4}, 2), (Cuts{0, 5, 6}));
  EXPECT_EQ(balanced_cuts({7, 7, 7}, 3), (Cuts{0, 1, 2, 3}));
  EXPECT_EQ(balanced_cuts({2, 3}, 1), (Cuts{0, 2}));
}

TEST(LayerChain, StagesHaveAllParametersBetweenThemAndShareTheTiedOne) {
  const ModelArguments arguments{.classes = 13, .length = 12};
  const auto build = [&] {
    return value_or_throw(ModelRegistry::builtin().find("gpt_char_tiny"))->build(arguments);
  };
  std::map<std::string, int> owners;
  std::mutex mutex;
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const auto model = build();
    model->keep_stage(ranks);
    EXPECT_EQ(model->ties().size(), ranks.rank() == 0 || ranks.rank() == 3 ? 1U : 0U);
    const std::lock_guard lock(mutex);
    for (const NamedTensor& parameter : model->parameters()) ++owners[parameter.name];
  });
  const auto whole = build()->parameters();
  EXPECT_EQ(owners.size(), whole.size());
  for (const NamedTensor& parameter : whole)
    EXPECT_EQ(owners[parameter.name], parameter.name == "tokens.weight" ? 2 : 1) << parameter.name;
}

TEST(LayerChain, TooManyStagesAreRefused) {
  SimulatedNetwork network(8, {});
  on_ranks(network, 8, [](Collective& ranks) {
    const auto model =
        value_or_throw(ModelRegistry::builtin().find("gpt_char_tiny"))->build({.classes = 13, .length = 12});
    try {
      model->keep_stage(ranks);
      ADD_FAILURE() << "8 stages";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("6 sections can't be cut into 8 stages"), std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace dlpipe::engine
