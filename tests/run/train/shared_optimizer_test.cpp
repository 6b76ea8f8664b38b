// Ranks that share the optimizer out: the same run as one's, each with its part of the state, in files of a checkpoint, too.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "run/train/gradients/gradient_sum.h"
#include "run/train/session/agreement.h"
#include "tests/run/train/ranks_fixture.h"

namespace dlpipe::test {
namespace {

class SharedOptimizerTest : public RanksTest {};

// Clipping, an average and several batches look at all gradients or weights; each rank has its share of them.
TEST_F(SharedOptimizerTest, RanksThatShareTheOptimizerOutComputeTheSameRun) {
  for (const char* const optimizer : {"sgd", "adamw", "adam8bit"}) {
    SCOPED_TRACE(optimizer);
    run::TrainConfig config = small("");
    config.optimizer = optimizer;
    const bool is_first = optimizer == std::string("sgd");
    if (is_first) config.model = "cifarnet";
    config.shard_optimizer = true;
    config.batch = 32;
    config.accumulate = 2;
    config.clip = 0.5;
    config.ema = 0.9;
    config.compress = is_first ? "bf16" : "none";
    config.bucket_mb = 0.1;
    config.max_steps = 3;
    config.val_every = "2steps";
    expect_same_run(config, {is_first ? 8 : 2});
  }
}

TEST_F(SharedOptimizerTest, AStepThatIsNotFiniteOnOneRankIsSkippedByAll) {
  ScratchFolder runs;
  run::TrainConfig config = small("");
  config.shard_optimizer = true;
  config.max_steps = 6;
  train_overflowing(config, 4, runs);
  expect_same_files(runs / "alone", runs / "together");
}

// Four ranks begin with shares, two go on with others, one without, four again, and one finishes.
TEST_F(SharedOptimizerTest, ARunWithASharedOptimizerGoesOnWithAnotherNumberOfRanks) {
  ScratchFolder runs;
  run::TrainConfig config = small(runs / "whole");
  config.optimizer = "adamw";
  config.max_steps = 9;
  config.val_every = "never";
  train(config, 1);
  config.out = runs / "parts";
  config.shard_optimizer = true;
  for (const auto& [world, steps] :
       {std::pair{4, 2}, std::pair{2, 4}, std::pair{1, 6}, std::pair{4, 8}, std::pair{1, 1000}}) {
    StopAfter stop(steps);
    const bool goes_on = std::filesystem::exists(config.out);
    train_on(
        world,
        [&, goes_on](Collective* ranks) {
          run::TrainObserver* const observer = ranks == nullptr || ranks->rank() == 0 ? &stop : nullptr;
          return goes_on ? run::Session::resume(config.out, {}, {}, observer, ranks)
                         : std::make_unique<run::Session>(config, run::Registries{}, observer, ranks);
        },
        &stop.stop);
    const std::string last = config.out + "/checkpoints/last/";
    EXPECT_EQ(std::filesystem::exists(last + "optimizer-1-of-" + std::to_string(world) + ".safetensors"),
              world > 1);
    EXPECT_EQ(std::filesystem::exists(last + "optimizer.safetensors"), world == 1);
  }
  expect_same_files(runs / "whole", runs / "parts");
  EXPECT_EQ(text_of(runs / "whole/checkpoints/last/optimizer.safetensors"),
            text_of(runs / "parts/checkpoints/last/optimizer.safetensors"));
}

// The tensors of a ResNet-18, of 11.2 million weights.
TEST_F(SharedOptimizerTest, EachRankKeepsItsShareOfTheOptimizerWithinFivePercent) {
  const auto parameters = value_or_throw(run::Registries{}.models.find("resnet18"))->build({})->parameters();
  int64_t all = 0;
  for (const engine::NamedTensor& parameter : parameters) all += parameter.tensor.elements();
  for (const int world : {2, 4, 8}) {
    SimulatedNetwork network(world, {});
    std::atomic<int64_t> sum{0};
    on_ranks(network, world, [&](Collective& ranks) {
      run::TrainStepOptions options;
      options.ranks = &ranks;
      options.shard_optimizer = true;
      int64_t own = 0;
      for (const engine::Share& share : run::GradientSum::shares(parameters, options.gradient_form()))
        own += share.count();
      EXPECT_NEAR(static_cast<double>(own) * world / static_cast<double>(all), 1.0, 0.05) << world;
      sum += own;
    });
    EXPECT_EQ(sum, all);
  }
}

// A folder stands where rank 2 would write its file, as a full disk would.
TEST_F(SharedOptimizerTest, APartOfACheckpointThatOneRankCannotWriteIsAnErrorOfAll) {
  ScratchFolder folder;
  std::filesystem::create_directories(folder / "optimizer-3-of-4.safetensors/in-the-way");
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const std::vector<engine::NamedTensor> own = {{"steps", engine::Tensor::zeros({1})}};
    const auto files = run::write_optimizer_parts(ranks, std::string(folder / ""), own);
    EXPECT_FALSE(files.ok());
    EXPECT_NE(files.status().message().find("rank 2 could not write its part"), std::string::npos)
        << files.status().message();
    const Status none(ErrorCode::kIo, "no folder");
    EXPECT_FALSE(run::write_optimizer_parts(ranks, none, own).ok());
    EXPECT_TRUE(ranks.close().ok());
  });
}

TEST_F(SharedOptimizerTest, TheOutcomeSaysWhatEachRankKept) {
  const run::TrainOutcome outcome = one_shared_step();
  ASSERT_EQ(outcome.optimizer_bytes.size(), 4U);
  const int64_t all =
      std::accumulate(outcome.optimizer_bytes.begin(), outcome.optimizer_bytes.end(), int64_t{0});
  for (const int64_t bytes : outcome.optimizer_bytes) EXPECT_LT(bytes, all / 2);
}

}  // namespace
}  // namespace dlpipe::test
