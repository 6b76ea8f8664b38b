#include "run/config/choices.h"

#include <gtest/gtest.h>

#include "dlpipe/optim.h"
#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"

namespace dlpipe::run {
namespace {

/// The message of a config that is refused; "" when it is taken.
std::string refusal(TrainConfig config) {
  const Status status = resolve_choices(config);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  return status.message();
}

TEST(ConfigChoices, EveryRecordsDefaultsAreOptionsWithValuesThatTheyMayHave) {
  for (const auto* optimizer : engine::optimizer_table()) {
    SCOPED_TRACE(optimizer->name);
    EXPECT_FALSE(optimizer->options.empty());
    for (const engine::OptionDefault& one : optimizer->options) {
      ASSERT_NE(find_config_option(one.name), nullptr) << one.name;
      TrainConfig config;
      EXPECT_TRUE(*one.value == '\0' || set_option(*find_config_option(one.name), one.value, config).ok());
    }
    TrainConfig config;
    config.optimizer = optimizer->name;
    if (config.optimizer == "muon") config.muon = {"conv.weight"};
    EXPECT_EQ(refusal(config), "");
  }
  for (const engine::ScheduleRecord* schedule : engine::ScheduleRegistry::builtin().records()) {
    SCOPED_TRACE(schedule->name);
    for (const engine::OptionDefault& one : schedule->options)
      EXPECT_NE(find_config_option(one.name), nullptr) << one.name;
    TrainConfig config;
    config.schedule = schedule->name;
    if (config.schedule == "step") config.milestones = {"3"};
    EXPECT_EQ(refusal(config), "");
  }
}

// What the defaults were before records had them, and what each optimizer is usually begun with.
TEST(ConfigChoices, UnsetOptionsAreTheChosenRecords) {
  TrainConfig sgd;
  sgd.loss = "cross_entropy";
  ASSERT_TRUE(resolve_choices(sgd).ok());
  EXPECT_EQ(sgd.lr, 0.1);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(sgd.weight_decay, 0.0);
  EXPECT_EQ(sgd.final_ratio, 0.0);
  EXPECT_EQ(sgd.label_smoothing, 0.0);
  EXPECT_FALSE(sgd.beta1.has_value());
  EXPECT_FALSE(sgd.gamma.has_value());
  TrainConfig adamw;
  adamw.optimizer = "adamw";
  ASSERT_TRUE(resolve_choices(adamw).ok());
  EXPECT_EQ(adamw.lr, 0.001);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_FALSE(adamw.momentum.has_value());
  adamw.lr = 0.5;
  ASSERT_TRUE(resolve_choices(adamw).ok());
  EXPECT_EQ(adamw.lr, 0.5) << "what is given stays";
}

TEST(ConfigChoices, AResolvedConfigIsWrittenWholeAndReadBackTheSame) {
  TrainConfig config;
  config.optimizer = "adam";
  config.schedule = "one_cycle";
  ASSERT_TRUE(resolve_choices(config).ok());
  const std::string text = write_config(config);
  EXPECT_NE(text.find("\nlr = 0.001\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\npeak-at = 0.3\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nmomentum"), std::string::npos) << text;
  TrainConfig back;
  ASSERT_TRUE(parse_config(text, "config.toml", back).ok());
  EXPECT_EQ(refusal(back), "");
  EXPECT_EQ(back, config);
}

TEST(ConfigChoices, OptionsThatDoNothingAreRefusedByName) {
  const auto with = [](auto change) {
    TrainConfig config;
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(with([](auto& c) { c.beta1 = 0.8; }),
            "[config] --beta1 has no effect with --optimizer sgd, which uses --lr, --momentum, --nesterov, "
            "--weight-decay and --decoupled; leave it out, or choose adam, adam8bit, adamw or lamb (--help "
            "optimizers)");
  const auto expect = [&](auto change, const std::string& part) {
    EXPECT_NE(with(change).find(part), std::string::npos) << with(change);
  };
  expect([](auto& c) { c.beta1 = c.beta2 = 0.9; }, "--beta1 and --beta2 have no effect with --optimizer sgd");
  expect([](auto& c) { c.milestones = {"3"}; }, "--milestones has no effect with --schedule cosine");
  expect([](auto& c) { c.gamma = 0.5; }, "--gamma has no effect with --schedule cosine");
  expect([](auto& c) { c.peak_at = 0.2; }, "or choose one_cycle");
  expect([](auto& c) { c.schedule = "one_cycle", c.warmup = 1; },
         "--warmup has no effect with --schedule one_cycle");
  expect([](auto& c) { c.schedule = "constant", c.final_ratio = 0.5; }, "--final-ratio has no effect");
  expect([](auto& c) { c.loss = "mse", c.label_smoothing = 0.1; },
         "--label-smoothing has no effect with --loss mse, which uses no options; leave it out, or choose "
         "cross_entropy or cross_entropy_dice (--help losses)");
  expect([](auto& c) { c.muon_momentum = 0.5; }, "--muon-momentum has no effect with --optimizer sgd");
  expect([](auto& c) { c.muon = {"x"}; }, "--muon has no effect with --optimizer sgd");
  expect([](auto& c) { c.optimizer = "adamw", c.momentum = 0.5; },
         "--momentum has no effect with --optimizer adamw");
  expect([](auto& c) { c.warmup_start = 0.5; }, "--warmup-start has no effect without --warmup");
  expect([](auto& c) { c.schedule = "step"; }, "--schedule step has no --milestones");
  expect([](auto& c) { c.optimizer = "muon"; }, "--optimizer muon has no --muon");
  expect([](auto& c) { c.decay_vectors = false; }, "--no-decay-vectors has no effect without --weight-decay");
  expect([](auto& c) { c.wd_scale = {"*=2"}; }, "--wd-scale has no effect without --weight-decay");
  expect([](auto& c) { c.decoupled = true; }, "--decoupled has no effect without --weight-decay");
  expect([](auto& c) { c.optimizer = "sdg"; }, "did you mean 'sgd'?");
}

TEST(ConfigChoices, WhatAFileSaysForAnotherChoiceCanBeLeftOut) {
  TrainConfig config;
  config.momentum = 0.8;
  config.nesterov = true;
  config.lr = 0.2;
  config.milestones = {"3"};
  config.optimizer = "adamw";
  const std::vector<std::string> keep = {"milestones"};
  const std::vector<std::string> lines = drop_idle_options(config, keep);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "--momentum and --nesterov have no effect with --optimizer adamw; they are ignored");
  EXPECT_FALSE(config.momentum.has_value());
  EXPECT_EQ(config.lr, 0.2);
  EXPECT_NE(refusal(config).find("--milestones"), std::string::npos) << "what was kept is still refused";
}

TEST(ConfigChoices, CommittedRecipesHaveNoIdleOption) {
  for (const char* name : {"quickstart", "mnist_mlp", "mnist_lenet", "cifar10", "cifar10_fast",
                           "cifar10_resnet18", "shakespeare_char", "finetune_frozen"}) {
    SCOPED_TRACE(name);
    TrainConfig config;
    ASSERT_TRUE(read_config(test_file("../recipes/") + name + ".toml", config).ok());
    EXPECT_TRUE(config.lr.has_value()) << "a recipe names its rate, whatever the default";
    EXPECT_EQ(refusal(config), "");
  }
}

TEST(ConfigChoices, DefaultsAreShownByWhoHasThem) {
  EXPECT_EQ(choice_defaults(*find_config_option("beta1")), "0.9 (adam, adam8bit, adamw, lamb)");
  EXPECT_EQ(choice_defaults(*find_config_option("milestones")), "none (step)");
  EXPECT_EQ(choice_defaults(*find_config_option("batch")), "");
}

}  // namespace
}  // namespace dlpipe::run
