#include "run/train/step/train_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/counters.h"
#include "dlpipe/log.h"
#include "engine/core/constant_cache.h"
#include "run/input/batch_input.h"
#include "run/record/checkpoint.h"
#include "run/train/gradients/gradient_norm.h"
#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {

using test::FakeSource;

struct Rig {
  explicit Rig(TrainStepOptions options = {}, double dropout = 0) : net(test::small_net(8, 4, 1, dropout)) {
    options.loss = *find_loss("cross_entropy");
    optimizer = (*engine::find_optimizer("sgd"))->build(net->parameters(), {});
    step = TrainStep::create(*net, *optimizer, nullptr, options);
    net->train();
  }
  /// A step, to its end.
  StepOutcome run(BatchSource& source, int64_t number, double lr) {
    EXPECT_NE(step->run(source, number, lr), nullptr);
    return step->take_outcome(true).value();
  }
  uint64_t weights() const { return hash_tensors(net->state_dict(), 0); }

  std::shared_ptr<engine::Module> net;
  std::unique_ptr<engine::Optimizer> optimizer;
  std::unique_ptr<TrainStep> step;
};

TEST(TrainStep, LearnsASimpleTask) {
  Rig rig;
  FakeSource source({.samples = 64, .batch = 16});
  double first = 0;
  double last = 0;
  for (int64_t i = 0; i < 60; ++i) {
    last = rig.run(source, i, 0.05).loss;
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.2 * first);
}

TEST(TrainStep, AccumulationAveragesTheGradientsOfItsBatches) {
  // Without batch norm's dependence on the batch: eval mode keeps running statistics.
  Rig whole;
  Rig parts({.accumulate = 4});
  whole.net->eval();
  parts.net->eval();
  FakeSource large({.samples = 64, .batch = 32});
  FakeSource small({.samples = 64, .batch = 8});
  for (int64_t i = 0; i < 3; ++i) {
    const StepOutcome a = whole.run(large, i, 0.1);
    const StepOutcome b = parts.run(small, i, 0.1);
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    EXPECT_EQ(a.samples, b.samples);
  }
  const auto a = whole.net->parameters();
  const auto b = parts.net->parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].tensor.to_doubles();
    const auto y = b[i].tensor.to_doubles();
    for (size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-5) << a[i].name;
  }
}

// What kernels made of weights before an update is never taken after it.
TEST(TrainStep, WhatWasMadeOfWeightsEndsWithTheStep) {
  for (const TrainStepOptions& options : {TrainStepOptions{.accumulate = 2}, TrainStepOptions{.grains = 2},
                                          TrainStepOptions{.accumulate = 2, .dtype = DType::kBF16}}) {
    Rig one(options);
    Rig anew(options);
    FakeSource of_one({.samples = 64, .batch = 16});
    FakeSource of_anew({.samples = 64, .batch = 16});
    for (int64_t i = 0; i < 5; ++i) {
      TrainStepOptions first = options;
      first.loss = *find_loss("cross_entropy");
      anew.step = TrainStep::create(*anew.net, *anew.optimizer, nullptr, first);
      EXPECT_EQ(one.run(of_one, i, 0.1).loss, anew.run(of_anew, i, 0.1).loss) << "step " << i;
    }
    EXPECT_EQ(one.weights(), anew.weights());
  }
}

// A loss that looks whether what is made of weights is kept: one more with each part of a step.
TEST(TrainStep, PartsOfAStepShareWhatIsMadeOfWeights) {
  static std::vector<size_t> kept;
  const LossRecord looks{.name = "looks",
                         .help = "",
                         .compute = [](const engine::Tensor& logits, const engine::Tensor& target,
                                       const engine::Tensor& weight, const LossArguments& arguments) {
                           const engine::ConstantCache* const cache = engine::thread_state::constant_cache();
                           kept.push_back(cache != nullptr ? cache->size_bytes() : 0);
                           return (*find_loss("cross_entropy"))->compute(logits, target, weight, arguments);
                         }};
  const auto kept_by = [&](TrainStepOptions options) {
    kept.clear();
    options.dtype = DType::kBF16;  // weights are cast
    Rig rig(options);
    options.loss = &looks;
    rig.step = TrainStep::create(*rig.net, *rig.optimizer, nullptr, options);
    FakeSource source({.samples = 64, .batch = 16});
    rig.run(source, 0, 0.1);
    EXPECT_EQ(engine::thread_state::constant_cache(), nullptr);
    return kept;
  };
  EXPECT_EQ(kept_by({}), std::vector<size_t>{0});
  for (const TrainStepOptions& parts : {TrainStepOptions{.accumulate = 2}, TrainStepOptions{.grains = 2}}) {
    const std::vector<size_t> seen = kept_by(parts);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_GT(seen[0], 0u);
    EXPECT_GE(seen[1], seen[0]);
  }
}

TEST(TrainStep, DropoutIsAPureFunctionOfTheStep) {
  Rig a({.seed = 3}, 0.5);
  Rig b({.seed = 3}, 0.5);
  Rig other({.seed = 4}, 0.5);
  FakeSource source_a({});
  FakeSource source_b({});
  FakeSource source_other({});
  EXPECT_EQ(a.run(source_a, 7, 0.1).loss, b.run(source_b, 7, 0.1).loss);
  EXPECT_EQ(a.weights(), b.weights());
  other.run(source_other, 7, 0.1);
  EXPECT_NE(a.weights(), other.weights());
}

TEST(TrainStep, ClippingBoundsTheUpdate) {
  Rig rig({.clip = 1e-3});
  FakeSource source({});
  std::vector<std::vector<double>> before;
  for (const auto& parameter : rig.net->parameters()) before.push_back(parameter.tensor.to_doubles());
  rig.run(source, 0, 1.0);
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const auto after = rig.net->parameters()[i].tensor.to_doubles();
    for (size_t k = 0; k < after.size(); ++k) squares += std::pow(after[k] - before[i][k], 2);
  }
  EXPECT_LE(std::sqrt(squares), 1.01e-3);
}

TEST(TrainStep, ANonfiniteStepNamesStepAndLayer) {
  Rig rig;
  for (const auto& parameter : rig.net->parameters()) {
    if (parameter.name == "fc1.weight") parameter.tensor.data<float>()[5] = std::nanf("");
  }
  FakeSource source({});
  try {
    rig.run(source, 41, 0.1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonfinite);
    EXPECT_NE(std::string(error.what()).find("step 42"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("fc1.weight"), std::string::npos) << error.what();
  }
}

TEST(TrainStep, AnOverflowingLayerIsNamedByItsOutput) {
  Rig rig;
  for (const auto& parameter : rig.net->parameters()) {
    if (parameter.name != "fc2.weight") continue;
    for (int64_t i = 0; i < parameter.tensor.elements(); ++i) parameter.tensor.data<float>()[i] = 3e38f;
  }
  FakeSource source({});
  try {
    rig.run(source, 2, 0.1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fc2 (Linear): its output"), std::string::npos) << error.what();
  }
}

TEST(TrainStep, TheSearchForALayerLeavesHooksOfOthers) {
  const auto net = test::small_net(8, 4, 1, 0);
  int calls = 0;
  net->register_forward_hook([&](engine::Module&, const engine::Tensor&, const engine::Tensor&) { ++calls; });
  EXPECT_THROW(first_nonfinite_output(*net, engine::Tensor::zeros({1})), Error) << "no images";
  EXPECT_NE(first_nonfinite_output(*net, engine::Tensor::full({2, 8, 8, 1}, NAN)), "");
  EXPECT_EQ(calls, 1);
  for (const engine::Module::Named& named : net->modules())
    EXPECT_EQ(named.module->has_forward_hooks(), named.module == net.get()) << named.name;
}

TEST(TrainStep, ASkippedStepLeavesWeightsAndStatisticsAlone) {
  Rig rig({.skip_nonfinite = true});
  FakeSource source({.bright_from_step = 2});
  rig.run(source, 0, 0.1);
  rig.run(source, 1, 0.1);
  const uint64_t before = rig.weights();
  const StepOutcome outcome = rig.run(source, 2, 0.1);
  EXPECT_TRUE(outcome.skipped);
  EXPECT_NE(outcome.reason, "");
  EXPECT_EQ(rig.weights(), before);
}

TEST(TrainStep, TheSourcesEndIsToldAndMakesNoStep) {
  Rig rig;
  FakeSource source({.samples = 16, .batch = 8, .epochs = 1});
  EXPECT_FALSE(rig.run(source, 0, 0.1).epoch_ended);
  EXPECT_TRUE(rig.run(source, 1, 0.1).epoch_ended);
  const uint64_t before = rig.weights();
  EXPECT_EQ(rig.step->run(source, 2, 0.1), nullptr);
  EXPECT_FALSE(rig.step->take_outcome(true).has_value());
  EXPECT_EQ(rig.weights(), before);
}

TEST(TrainStep, FrozenParametersStay) {
  Rig rig;
  ASSERT_GT(rig.net->freeze("fc1.*"), 0);
  const auto before = hash_tensors({&rig.net->parameters()[2], 1}, 0);
  ASSERT_EQ(rig.net->parameters()[2].name, "fc1.weight");
  FakeSource source({});
  rig.run(source, 0, 0.1);
  EXPECT_EQ(hash_tensors({&rig.net->parameters()[2], 1}, 0), before);
}

TEST(TrainStep, AGraphOnTheHostChangesNothingAndSaysSo) {
  static std::vector<std::string> said;
  said.clear();
  const LogFunction former =
      set_log_function([](LogLevel, std::string_view message) { said.emplace_back(message); });
  Rig as_graph({.graph = GraphUse::kOn});
  set_log_function(former);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "--graph on has no effect on cpu: it needs --device cuda");
  Rig plain;
  FakeSource one({.samples = 64, .batch = 16});
  FakeSource two({.samples = 64, .batch = 16});
  EXPECT_EQ(as_graph.run(one, 0, 0.1).loss, plain.run(two, 0, 0.1).loss);
}

TEST(CachedBatch, RepeatsOneBatchForever) {
  FakeSource source({});
  const std::optional<Batch> batch = *source.next();
  CachedBatch cached(*batch);
  ASSERT_TRUE(source.release(*batch).ok());
  ASSERT_TRUE(source.next().ok());  // overwrites the source's memory
  Rig a;
  double first = 0;
  double last = 0;
  for (int64_t i = 0; i < 100; ++i) {
    last = a.run(cached, i, 0.05).loss;
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.1 * first);
}

}  // namespace dlpipe::run
