// Runs whose ranks have parts of the weights: losses and weights of one rank's run, within rounding, in the same files.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "run/train/gradients/split_weights.h"
#include "run/train/session/options.h"
#include "tests/run/train/split_fixture.h"

namespace dlpipe::test {
namespace {

class TensorParallelTest : public SplitRunTest {
 protected:
  static run::TrainConfig gpt(const std::string& out, int64_t tensor) {
    run::TrainConfig config = SplitRunTest::gpt(out);
    config.tensor_parallel = tensor;
    return config;
  }
};

TEST_F(TensorParallelTest, AGptSplitOverRanksIsTheRunOfOne) {
  ScratchFolder runs;
  train(gpt(runs / "alone", 1), 1);
  for (const auto& [world, tensor] : {std::pair{2, 2}, std::pair{4, 4}, std::pair{4, 2}, std::pair{8, 2}}) {
    SCOPED_TRACE(concat(world, " ranks, ", tensor, " to a row"));
    const std::string out = runs / concat(world, "-", tensor);
    train(gpt(out, tensor), world);
    expect_near_runs(runs / "alone", out, kLoss, kWeights);
    EXPECT_EQ(value_or_throw(run::read_receipt(out)).tensor_parallel, tensor);
  }
}

TEST_F(TensorParallelTest, RowsOfRanksHaveTheBitsOfOneRow) {
  ScratchFolder runs;
  for (const int world : {2, 4, 8}) train(gpt(runs / std::to_string(world), 2), world);
  expect_same_files(runs / "2", runs / "4");
  expect_same_files(runs / "2", runs / "8");
}

TEST_F(TensorParallelTest, AVitSplitOverRanksIsTheRunOfOne) {
  ScratchFolder runs;
  train(vit(runs / "alone"), 1);
  run::TrainConfig config = vit(runs / "split");
  config.tensor_parallel = 2;
  train(config, 2);
  expect_near_runs(runs / "alone", runs / "split", 1e-4, 1e-4);
}

// Ranks in rows of two begin, one goes on by itself, rows of four finish.
TEST_F(TensorParallelTest, ARunGoesOnWithItsWeightsSplitOtherwise) {
  ScratchFolder runs;
  train(gpt(runs / "whole", 1), 1);
  train_in_legs(gpt(runs / "parts", 2),
                {{4, 2}, {1, 4, {{"tensor-parallel", "1"}}}, {4, 1000, {{"tensor-parallel", "4"}}}});
  expect_near_runs(runs / "whole", runs / "parts", kLoss, kWeights);
}

// Its rows stop and go on at the same bits as rows that don't stop.
TEST_F(TensorParallelTest, ARunThatStopsGoesOnBitForBit) {
  ScratchFolder runs;
  train(gpt(runs / "whole", 2), 2);
  train_in_legs(gpt(runs / "parts", 2), {{2, 3}, {2, 1000}});
  expect_same_files(runs / "whole", runs / "parts");
}

TEST_F(TensorParallelTest, AStepThatIsNotFiniteInOnePartIsSkippedByAll) {
  expect_skips_nonfinite_steps(gpt("", 2), 4);
}

// Each rank computes these weights by itself; where one has others, no file is written.
TEST_F(TensorParallelTest, RanksThatDifferInWhatTheyHaveWholeAreAnError) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    const auto model =
        value_or_throw(run::Registries{}.models.find("gpt_char_tiny"))->build({.classes = 13, .length = 12});
    const run::SplitWeights weights(*model, engine::make_rank_grid(&ranks, 1, 2));
    EXPECT_EQ(weights.whole(model->state_dict()).size(), model->state_dict().size());
    for (engine::NamedTensor& one : model->parameters()) {
      if (one.name == "blocks.2.norm1.bias" && ranks.rank() == 1) one.tensor.data<float>()[5] = 1e-7f;
    }
    try {
      (void)weights.whole(model->state_dict());
      ADD_FAILURE() << "ranks differ";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("differ in blocks.2.norm1.bias"), std::string::npos)
          << error.what();
    }
  });
}

TEST_F(TensorParallelTest, WhatCannotBeSplitIsRefused) {
  const auto refused = [](const auto& change, const std::string& part) {
    expect_refused(gpt("", 2), change, part);
  };
  refused([](auto& c) { c.tensor_parallel = 3; }, "--tensor-parallel 3; use powers of two");
  refused([](auto& c) { c.tensor_parallel = 4; }, "--tensor-parallel 4 needs 4 processes, but there are 2");
  refused([](auto& c) { c.shard_optimizer = true; },
          "--tensor-parallel 2 does not work with --shard-optimizer");
  refused([](auto& c) { c.optimizer = "adam8bit", c.lr.reset(); },
          "the state of adam8bit is not one number per weight; use one of adam, adamw, sgd");
  refused([](auto& c) { c = small(""), c.tensor_parallel = 2; },
          "--tensor-parallel 2 of lenet: none of its layers can be split");
  refused([](auto& c) { c.grains = 6; }, "--grains 6; use a power of two");
}

TEST_F(TensorParallelTest, OneProcessSaysThatItChangesNothing) {
  ScratchFolder runs;
  class Notes : public run::TrainObserver {
   public:
    void on_note(std::string_view text) override { all += text; }
    std::string all;
  } notes;
  run::TrainConfig config = gpt(runs / "run", 2);
  config.max_steps = 1;
  run::Session(config, {}, &notes).train();
  EXPECT_NE(notes.all.find("--tensor-parallel has no effect in one process"), std::string::npos) << notes.all;
}

}  // namespace
}  // namespace dlpipe::test
