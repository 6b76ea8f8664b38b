// One run computed by several ranks, here threads of one process.
#pragma once

#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/ops.h"
#include "run/record/receipt.h"
#include "tests/engine/collective/simulated_ranks.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::test {

using engine::Collective;
using engine::SimulatedNetwork;

class RanksTest : public SessionTest {
 protected:
  static run::TrainConfig small(const std::string& out) {
    run::TrainConfig config = RanksTest::config(out);
    config.grains = 8;
    config.limit = 160;  // ten steps
    config.epochs = 1;
    config.kernels = "rules";  // threads that measure at once don't wait for one another, as processes do
    return config;
  }

  /// dlpipe's own, and the loss "overflowing": the cross entropy, infinite with its gradients on parts of a batch whose first
  /// label is 4, one part of ten or so.
  static run::Registries registries() {
    static const run::LossRecord overflowing = {
        .name = "overflowing",
        .help = "a test's",
        .compute = [](const engine::Tensor& logits, const engine::Tensor& target,
                      const engine::Tensor& weight, const run::LossArguments&) {
          const engine::Tensor loss = engine::cross_entropy(logits, target, weight);
          return target.data<int64_t>()[0] == 4 ? engine::scale(loss, HUGE_VAL) : loss;
        }};
    run::Registries registries;
    registries.losses.add(overflowing);
    return registries;
  }

  /// Rank 0's outcome. `config` may differ by rank; `on_first` is called with rank 0's session before it trains.
  template <class Open>
  static run::TrainOutcome train_on(int world, const Open& open, const std::atomic<bool>* stop = nullptr) {
    run::TrainOutcome first;
    if (world == 1) return open(nullptr)->train(stop);
    SimulatedNetwork network(world, {.seed = 5, .most_delay_us = 100});
    on_ranks(network, world, [&](Collective& ranks) {
      const std::unique_ptr<run::Session> session = open(&ranks);
      const run::TrainOutcome outcome = session->train(ranks.rank() == 0 ? stop : nullptr);
      if (ranks.rank() == 0) first = outcome;
      EXPECT_TRUE(ranks.close().ok());
    });
    return first;
  }
  static run::TrainOutcome train(const run::TrainConfig& config, int world) {
    return train_on(world, [&](Collective* ranks) {
      return std::make_unique<run::Session>(config, registries(), nullptr, ranks);
    });
  }

  static void expect_same_files(const std::string& first, const std::string& second) {
    const auto difference = run::compare_runs(first, second);
    ASSERT_TRUE(difference.ok()) << difference.status().message();
    EXPECT_TRUE(difference->same());
    for (const auto& field : difference->receipt)
      ADD_FAILURE() << field.field << " " << field.first << " " << field.second;
    for (const char* file : {"/metrics.jsonl", "/checkpoints/last/model.safetensors"})
      EXPECT_EQ(text_of(first + file), text_of(second + file)) << file;
  }

  static void expect_same_run(const run::TrainConfig& config, std::initializer_list<int> worlds) {
    ScratchFolder runs;
    run::TrainConfig alone = config;
    alone.out = runs / "alone";
    train(alone, 1);
    for (const int world : worlds) {
      SCOPED_TRACE(world);
      run::TrainConfig together = config;
      together.out = runs / std::to_string(world);
      train(together, world);
      expect_same_files(alone.out, together.out);
    }
  }

  /// Runs of one rank and of `world`, in the folders "alone" and "together" of `runs`, of which some steps are skipped: most ranks'
  /// parts of these steps are finite.
  static void train_overflowing(run::TrainConfig config, int world, const ScratchFolder& runs) {
    config.loss = "overflowing";
    config.on_nonfinite = "skip";
    config.val_every = "never";
    config.out = runs / "alone";
    const run::TrainOutcome alone = train(config, 1);
    config.out = runs / "together";
    const run::TrainOutcome together = train(config, world);
    EXPECT_GT(alone.skipped_steps, 0);
    EXPECT_LT(alone.skipped_steps, alone.steps);
    EXPECT_EQ(together.steps, alone.steps);
    EXPECT_EQ(together.skipped_steps, alone.skipped_steps);
  }

  /// What rank 0 of four says when rank 2 answers nobody from its exchange of that number on; checks that it names rank 2 and
  /// that the run keeps its checkpoint.
  static std::string message_when_a_rank_dies(run::TrainConfig config, int64_t exchange) {
    ScratchFolder runs;
    SimulatedNetwork network(4, {.peer_timeout_s = 0.5});
    network.hang(2, exchange);
    config.out = runs / "run";
    config.epochs = 1000;
    config.checkpoint_every = "5steps";
    config.val_every = "never";
    std::atomic<int> said{0};
    std::string message;
    on_ranks(network, 4, [&](Collective& ranks) {
      try {
        run::Session(config, {}, nullptr, &ranks).train();
      } catch (const Error& error) {
        if (ranks.rank() == 0) message = error.what();
        if (ranks.rank() != 2) ++said;
      }
      if (said == 3) network.end();
    });
    EXPECT_NE(message.find("rank 2 has not responded for 0.5 s"), std::string::npos) << message;
    EXPECT_TRUE(std::filesystem::exists(config.out + "/checkpoints/last/state.json"));
    return message;
  }

  /// Of one step of four ranks that share the optimizer out, adamw's.
  static run::TrainOutcome one_shared_step() {
    run::TrainConfig config = small("");
    config.model = "cifarnet";
    config.optimizer = "adamw";
    config.shard_optimizer = true;
    config.max_steps = 1;
    config.val_every = "never";
    return train(config, 4);
  }

  /// What each rank's Session, of a config that `change` makes its own, fails with.
  static std::vector<std::string> refusals(
      const std::function<void(int rank, run::TrainConfig& config)>& change) {
    SimulatedNetwork network(2, {});
    std::vector<std::string> messages(2);
    on_ranks(network, 2, [&](Collective& ranks) {
      run::TrainConfig config = small("");
      change(ranks.rank(), config);
      try {
        run::Session(config, {}, nullptr, &ranks);
      } catch (const Error& error) {
        messages[static_cast<size_t>(ranks.rank())] = error.what();
      }
    });
    return messages;
  }
};

}  // namespace dlpipe::test
