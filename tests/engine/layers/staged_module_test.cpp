// Models in stages: where they are cut, and what each stage keeps.
#include "engine/layers/staged.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"
#include "tests/engine/collective/simulated_ranks.h"

namespace dlpipe::engine {
namespace {

using test::on_ranks;

const LayerCost kAlike = [](const std::string&) { return 1.0; };

TEST(Stages, AreCutWhereTheDearestStageIsCheapest) {
  using Cuts = std::vector<size_t>;
  EXPECT_EQ(balanced_cuts({1, 1, 1, 1}, 2), (Cuts{0, 2, 4}));
  EXPECT_EQ(balanced_cuts({5, 1, 1, 1}, 2), (Cuts{0, 1, 4}));
  EXPECT_EQ(balanced_cuts({0, 1, 1, 1, 1, 4}, 2), (Cuts{0, 5, 6}));
  EXPECT_EQ(balanced_cuts({7, 7, 7}, 3), (Cuts{0, 1, 2, 3}));
  EXPECT_EQ(balanced_cuts({2, 3}, 1), (Cuts{0, 2}));
}

TEST(Stages, OfAChainHaveAllParametersBetweenThemAndShareTheTiedOne) {
  const ModelArguments arguments{.classes = 13, .length = 12};
  const auto build = [&] {
    return value_or_throw(ModelRegistry::builtin().find("gpt_char_tiny"))->build(arguments);
  };
  std::map<std::string, int> owners;
  std::mutex mutex;
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const auto model = build();
    model->keep_stage(ranks, kAlike);
    EXPECT_EQ(model->ties().size(), ranks.rank() == 0 || ranks.rank() == 3 ? 1U : 0U);
    const std::lock_guard lock(mutex);
    for (const NamedTensor& parameter : model->parameters()) ++owners[parameter.name];
  });
  const auto whole = build()->parameters();
  EXPECT_EQ(owners.size(), whole.size());
  for (const NamedTensor& parameter : whole)
    EXPECT_EQ(owners[parameter.name], parameter.name == "tokens.weight" ? 2 : 1) << parameter.name;
}

TEST(Stages, TooManyStagesAreRefused) {
  SimulatedNetwork network(8, {});
  on_ranks(network, 8, [](Collective& ranks) {
    const auto model =
        value_or_throw(ModelRegistry::builtin().find("gpt_char_tiny"))->build({.classes = 13, .length = 12});
    try {
      model->keep_stage(ranks, kAlike);
      ADD_FAILURE() << "8 stages";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("6 sections can't be cut into 8 stages"), std::string::npos)
          << error.what();
    }
  });
}

std::string names_of(const Module& model) {
  std::string text;
  for (const NamedTensor& tensor : model.state_dict()) text += tensor.name + " ";
  return text;
}

std::shared_ptr<Sequential> nested() {
  const auto features = std::make_shared<Sequential>();
  features->append(std::make_shared<Conv2d>(3, 8, 3)).append(std::make_shared<ReLU>());
  features->append(std::make_shared<BatchNorm2d>(8)).append(std::make_shared<MaxPool2d>(2));
  return std::shared_ptr<Sequential>(new Sequential{{"features", features},
                                                    {"flatten", std::make_shared<Flatten>()},
                                                    {"fc", std::make_shared<Linear>(72, 5)}});
}

TEST(Stages, OfASequentialBeginWithParametersAndKeepTheirNames) {
  const std::vector<std::string> expected = {
      "features.0.weight features.0.bias ",
      "features.2.weight features.2.bias features.2.running_mean features.2.running_var "
      "features.2.num_batches_tracked fc.weight fc.bias ",
  };
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [&](Collective& ranks) {
    const auto model = nested();
    std::string asked;
    // the first convolution takes as long as all the rest
    model->keep_stage(ranks, [&](const std::string& name) {
      asked += name + " ";
      return name == "features.0" ? 2.0 : 0.5;
    });
    EXPECT_EQ(names_of(*model), expected[static_cast<size_t>(ranks.rank())]);
    EXPECT_EQ(asked, "features.0 features.1 features.2 features.3 flatten fc ");
  });
}

TEST(Stages, OfASequentialShareNoLayer) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    const auto layer = std::make_shared<Linear>(4, 4);
    Sequential model{{"a", layer}, {"b", std::make_shared<Linear>(4, 4)}, {"c", layer}};
    try {
      model.keep_stage(ranks, kAlike);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("c is a layer that occurs twice"), std::string::npos)
          << error.what();
    }
  });
}

/// Within rounding: what crosses between stages lies plain, where the whole model may keep blocked layouts, for which there are
/// other kernels.
void expect_alike(const std::vector<double>& got, const std::vector<double>& expected,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-5 * largest) << what << " " << i;
}

TEST(Stages, DrawWhatTheWholeDoes) {
  const auto build = [] {
    const auto layers = std::make_shared<Sequential>();
    for (int i = 0; i < 4; ++i)
      layers->append(std::make_shared<Linear>(16, 16)).append(std::make_shared<Dropout>(0.5));
    return layers;
  };
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const auto whole = build(), part = build();
    initialize(*whole, 3);
    initialize(*part, 3);
    part->keep_stage(ranks, kAlike);
    const Tensor x = Tensor::full({4, 16}, 0.5);
    const auto run = [&](Module& model) {
      random_state() = {.seed = 5, .step = 2};
      return model(x);
    };
    const Tensor y = run(*whole);
    for (int grain = 0; grain < 2; ++grain) {
      part->stage_line()->begin(1);
      const Tensor z = run(*part);
      const bool is_last = part->stage_line()->is_last();
      if (is_last) expect_alike(z.to_doubles(), y.to_doubles(), "outputs");
      (is_last ? sum(z * z) : z).backward();
    }
  });
}

// Twice, with batches of two sizes, and back.
TEST(Stages, OfASequentialComputeWhatTheWholeDoes) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [&](Collective& ranks) {
    const auto whole = nested(), part = nested();
    initialize(*whole, 3);
    initialize(*part, 3);
    part->keep_stage(ranks, kAlike);
    for (const int64_t batch : {4, 2}) {
      Tensor x = Tensor::empty({batch, 8, 8, 3});
      for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i % 11) / 11;
      const Tensor y = (*whole)(x);
      sum(y * y).backward();
      part->stage_line()->begin(1);
      const Tensor z = (*part)(x);
      const bool is_last = part->stage_line()->is_last();
      if (is_last) {
        expect_alike(z.to_doubles(), y.to_doubles(), "outputs");
      }
      (is_last ? sum(z * z) : z).backward();
    }
    std::map<std::string, std::vector<double>> gradients;
    for (const NamedTensor& one : whole->parameters()) gradients[one.name] = one.tensor.grad().to_doubles();
    for (const NamedTensor& own : part->parameters())
      expect_alike(own.tensor.grad().to_doubles(), gradients[own.name], own.name);
    const NoGrad no_grad;
    const Tensor x = Tensor::full({3, 8, 8, 3}, 0.5);
    whole->eval();
    part->eval();
    expect_alike((*part)(x).to_doubles(), (*whole)(x).to_doubles(), "outputs in eval");
  });
}

}  // namespace
}  // namespace dlpipe::engine
