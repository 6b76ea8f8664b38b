// Runs whose ranks have stages of the model, and parts of these: losses and weights of one rank's run, within rounding, in the same
// files.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/run/train/split_fixture.h"

namespace dlpipe::test {
namespace {

struct Replica {
  int64_t stages = 1;
  int64_t parts = 1;
};

class PipelineParallelTest : public SplitRunTest {
 protected:
  static run::TrainConfig gpt(const std::string& out, Replica replica) {
    run::TrainConfig config = SplitRunTest::gpt(out);
    config.pipeline_parallel = replica.stages;
    config.tensor_parallel = replica.parts;
    return config;
  }
};

TEST_F(PipelineParallelTest, AGptInStagesIsTheRunOfOne) {
  ScratchFolder runs;
  train(gpt(runs / "alone", {}), 1);
  for (const auto& [world, replica] :
       {std::pair{2, Replica{2, 1}}, std::pair{4, Replica{4, 1}}, std::pair{4, Replica{2, 1}},
        std::pair{4, Replica{2, 2}}, std::pair{8, Replica{2, 2}}}) {
    SCOPED_TRACE(concat(world, " ranks, ", replica.stages, " stages, ", replica.parts, " parts"));
    const std::string out = runs / concat(world, "-", replica.stages, "-", replica.parts);
    train(gpt(out, replica), world);
    expect_near_runs(runs / "alone", out, kLoss, kWeights);
    EXPECT_EQ(value_or_throw(run::read_receipt(out)).pipeline_parallel, replica.stages);
  }
}

// Fewer grains than stages, as many, and more.
TEST_F(PipelineParallelTest, AnyNumberOfGrainsGoesThroughTheStages) {
  for (const int64_t grains : {1, 2, 4, 8}) {
    SCOPED_TRACE(grains);
    ScratchFolder runs;
    for (const int64_t stages : {1, 4}) {
      run::TrainConfig config = gpt(runs / std::to_string(stages), {stages, 1});
      config.grains = grains;
      config.max_steps = 2;
      config.val_every = "never";
      train(config, static_cast<int>(stages));
    }
    expect_near_runs(runs / "1", runs / "4", kLoss, kWeights);
  }
}

TEST_F(PipelineParallelTest, AVitInStagesIsTheRunOfOne) {
  ScratchFolder runs;
  train(vit(runs / "alone"), 1);
  run::TrainConfig config = vit(runs / "stages");
  config.pipeline_parallel = 2;
  train(config, 2);
  expect_near_runs(runs / "alone", runs / "stages", 1e-4, 1e-4);
}

// Batch norms, convolutions whose output lies in blocks, stages with and without classes; sgd moves a weight by little, and
// statistics are means of few.
TEST_F(PipelineParallelTest, ASequentialInStagesIsTheRunOfOne) {
  ScratchFolder runs;
  const auto cifarnet = [&](const std::string& out, int64_t stages) {
    run::TrainConfig config = small(runs / out);
    config.model = "cifarnet";
    config.batch = 16;
    config.grains = 4;
    config.clip = 0.5;
    config.ema = 0.9;
    config.max_steps = 2;
    config.val_every = "1steps";
    config.pipeline_parallel = stages;
    return config;
  };
  train(cifarnet("alone", 1), 1);
  for (const auto& [world, stages] : {std::pair{4, 4}, std::pair{4, 2}}) {
    SCOPED_TRACE(concat(world, " ranks, ", stages, " stages"));
    const std::string out = concat(world, "-", stages);
    train(cifarnet(out, stages), world);
    expect_near_runs(runs / "alone", runs / out, 1e-4, 1e-4);
  }
}

TEST_F(PipelineParallelTest, ASequentialInStagesGoesOnInOne) {
  ScratchFolder runs;
  train(small(runs / "whole"), 1);
  run::TrainConfig config = small(runs / "parts");
  config.pipeline_parallel = 2;
  train_in_legs(config, {{2, 2}, {1, 1000, {{"pipeline-parallel", "1"}}}});
  expect_near_runs(runs / "whole", runs / "parts", 1e-4, 1e-4);
}

TEST_F(PipelineParallelTest, PatternsOfOneStagesWeightsAreKnownToAll) {
  ScratchFolder runs;
  for (const int64_t stages : {1, 4}) {
    run::TrainConfig config = gpt(runs / std::to_string(stages), {stages, 1});
    config.lr_scale = {"blocks.0.*=0.5"};
    config.wd_scale = {"norm.*=0"};
    config.max_steps = 2;
    train(config, static_cast<int>(stages));
  }
  expect_near_runs(runs / "1", runs / "4", kLoss, kWeights);
}

TEST_F(PipelineParallelTest, ReplicasHaveTheBitsOfOne) {
  ScratchFolder runs;
  for (const int world : {4, 8}) train(gpt(runs / std::to_string(world), {2, 2}), world);
  expect_same_files(runs / "4", runs / "8");
}

// Two replicas of two stages begin, one goes on by itself, stages of two parts finish.
TEST_F(PipelineParallelTest, ARunGoesOnInOtherStages) {
  ScratchFolder runs;
  train(gpt(runs / "whole", {}), 1);
  train_in_legs(gpt(runs / "parts", {2, 1}),
                {{4, 2},
                 {1, 4, {{"pipeline-parallel", "1"}}},
                 {4, 1000, {{"pipeline-parallel", "2"}, {"tensor-parallel", "2"}}}});
  expect_near_runs(runs / "whole", runs / "parts", kLoss, kWeights);
}

TEST_F(PipelineParallelTest, AStepThatIsNotFiniteInOneStageIsSkippedByAll) {
  expect_skips_nonfinite_steps(gpt("", {2, 2}), 4);
}

TEST_F(PipelineParallelTest, FrozenLayersOfAWholeStageStopNobody) {
  ScratchFolder runs;
  for (const int64_t stages : {1, 4}) {
    run::TrainConfig config = gpt(runs / std::to_string(stages), {stages, 1});
    config.freeze = {"blocks.0.*", "blocks.1.*", "tokens.*", "positions"};
    config.max_steps = 2;
    train(config, static_cast<int>(stages));
  }
  expect_near_runs(runs / "1", runs / "4", kLoss, kWeights);
}

TEST_F(PipelineParallelTest, ARankThatDiesEndsTheRunAndIsNamed) {
  run::TrainConfig config = gpt("", {2, 2});
  config.max_steps = 1000;
  const std::string message = message_when_a_rank_dies(config, 3000);
  EXPECT_NE(message.find("[ranks] rank 0 of 4 waited for "), std::string::npos) << message;
}

TEST_F(PipelineParallelTest, WhatHasNoStagesIsRefused) {
  const auto refused = [](const auto& change, const std::string& part) {
    expect_refused(gpt("", {2, 1}), change, part);
  };
  refused([](auto& c) { c.pipeline_parallel = 3; }, "--pipeline-parallel 3; use powers of two");
  refused([](auto& c) { c.tensor_parallel = 2; },
          "--pipeline-parallel 2 --tensor-parallel 2 needs 4 processes, but there are 2");
  refused([](auto& c) { c.sync_bn = true; }, "--pipeline-parallel 2 does not work with --sync-bn");
  refused([](auto& c) { c = small(""), c.model = "resnet18_cifar", c.pipeline_parallel = 2; },
          "--pipeline-parallel 2 of resnet18_cifar: ResNet is not a sequence of sections that 2 stages could "
          "share");
}

}  // namespace
}  // namespace dlpipe::test
