// One run computed by several ranks, here threads of one process: it has the bits of the run of one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/collective/simulated_ranks.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::test {
namespace {

using engine::Collective;
using engine::SimulatedNetwork;

class RanksTest : public SessionTest {
 protected:
  /// Of rank 0.
  static run::TrainOutcome train(run::TrainConfig config, int world) {
    run::TrainOutcome first;
    if (world == 1) return run::Session(config).train();
    SimulatedNetwork network(world, {.seed = 5, .most_delay_us = 100});
    on_ranks(network, world, [&](Collective& ranks) {
      run::Session session(config, {}, nullptr, &ranks);
      const run::TrainOutcome outcome = session.train();
      if (ranks.rank() == 0) first = outcome;
      EXPECT_TRUE(ranks.close().ok());
    });
    return first;
  }

  static void expect_same_run(const run::TrainConfig& config, std::initializer_list<int> worlds) {
    run::TrainConfig alone = config;
    alone.out = folder_->path() + "/alone";
    const run::TrainOutcome one = train(alone, 1);
    for (const int world : worlds) {
      SCOPED_TRACE(world);
      run::TrainConfig together = config;
      together.out = folder_->path() + "/together" + std::to_string(world);
      const run::TrainOutcome many = train(together, world);
      EXPECT_EQ(many.parameters_chain, one.parameters_chain);
      EXPECT_EQ(many.batches_chain, one.batches_chain);
      EXPECT_EQ(text_of(together.out + "/metrics.jsonl"), text_of(alone.out + "/metrics.jsonl"));
      EXPECT_EQ(text_of(together.out + "/checkpoints/last/model.safetensors"),
                text_of(alone.out + "/checkpoints/last/model.safetensors"));
      std::filesystem::remove_all(together.out);
    }
    std::filesystem::remove_all(alone.out);
  }
};

TEST_F(RanksTest, AnyNumberOfRanksComputesTheSameRun) {
  run::TrainConfig config = RanksTest::config("");
  config.grains = 8;
  config.epochs = 1;
  expect_same_run(config, {2, 4, 8});
}

}  // namespace
}  // namespace dlpipe::test
