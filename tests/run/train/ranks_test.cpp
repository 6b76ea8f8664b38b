// A run of several ranks has the bits of the run of one; what they differ in is refused, and who is gone is named.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/run/train/ranks_fixture.h"

namespace dlpipe::test {
namespace {

/// Holds up the rank that is about to link images.
class SlowNotes : public run::TrainObserver {
 public:
  void on_note(std::string_view text) override {
    if (text.find("its images are linked") == std::string_view::npos) return;
    has_waited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  }
  bool has_waited = false;
};

// Linking looks into every file, which may take longer than --peer-timeout.
TEST_F(RanksTest, TheOthersWaitForLinksForAsLongAsTheyTake) {
  ScratchFolder runs;
  SimulatedNetwork network(2, {.seed = 5, .peer_timeout_s = 1});
  SlowNotes observer;
  on_ranks(network, 2, [&](Collective& ranks) {
    run::TrainConfig config = small(runs / "run");
    config.data = data_.jpegs;
    const bool is_first = ranks.rank() == 0;
    const run::Session session(config, {}, is_first ? &observer : nullptr, &ranks);
    EXPECT_TRUE(session.config().data.ends_with("/run/linked")) << session.config().data;
    EXPECT_TRUE(ranks.close().ok());
  });
  EXPECT_TRUE(observer.has_waited);
}

TEST_F(RanksTest, WhatTheFirstOneCantLinkItSaysForAll) {
  ScratchFolder runs;
  std::filesystem::create_directories(runs / "images/a");
  throw_if_error(formats::write_file(runs / "images/a/1.jpg", "no image"));
  const auto messages = refusals([&](int, run::TrainConfig& config) {
    config.data = runs / "images";
    config.out = runs / "run";
  });
  EXPECT_NE(messages[0].find("1.jpg"), std::string::npos) << messages[0];
  EXPECT_EQ(messages[1], "") << "one of them says it";
}

TEST_F(RanksTest, AnyNumberOfRanksComputesTheSameRun) {
  expect_same_run(small(""), {2, 4, 8});
}

// Batch norm, mixing, average, clipping, several batches per step, a last batch of validation that isn't whole.
TEST_F(RanksTest, SoDoesARunWithEverythingThatLooksAtMoreThanOneSample) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.batch = 48;
  config.accumulate = 2;
  config.mixup = 0.2;
  config.cutmix = 1;
  config.clip = 0.5;
  config.ema = 0.9;
  config.bucket_mb = 0.1;
  config.max_steps = 2;
  config.val_every = "1steps";
  expect_same_run(config, {2, 8});
}

// Batch norms meet in forward and in backward.
TEST_F(RanksTest, BatchNormOverAllGrainsDoesToo) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.sync_bn = true;
  config.max_steps = 3;
  config.bucket_mb = 0.1;
  expect_same_run(config, {2, 4, 8});
  config.accumulate = 2;
  config.mixup = 0.2;
  expect_same_run(config, {4});
}

// Eight grains that share statistics see what one grain of the whole batch sees; eight that don't see something else.
TEST_F(RanksTest, BatchNormOverAllGrainsIsThatOfTheWholeBatch) {
  const auto last_loss = [](int64_t grains, bool sync_bn) {
    ScratchFolder runs;
    run::TrainConfig config = small(runs / "run");
    config.model = "cifarnet";
    config.grains = grains;
    config.sync_bn = sync_bn;
    config.max_steps = 4;
    config.val_every = "never";
    return train(config, 1).loss;
  };
  const double whole = last_loss(1, false);
  EXPECT_NEAR(last_loss(8, true), whole,
              2e-3);  // kernels add up grains in another order; four steps amplify it
  EXPECT_GT(std::abs(last_loss(8, false) - whole), 1e-2);
}

TEST_F(RanksTest, AStepThatIsNotFiniteOnOneRankEndsForGrainsThatMeet) {
  ScratchFolder runs;
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.sync_bn = true;
  config.max_steps = 6;
  train_overflowing(config, 4, runs);
  expect_same_files(runs / "alone", runs / "together");
}

// Activations that are made again show a parameter's gradient twice; it is taken once.
TEST_F(RanksTest, ActivationsMadeAgainChangeNoBits) {
  run::TrainConfig config = small("");
  config.model = "cifarnet";
  config.max_steps = 3;
  config.accumulate = 2;
  config.bucket_mb = 0.1;
  config.checkpoint_activations = {"group?"};
  expect_same_run(config, {2, 8});
}

TEST_F(RanksTest, GradientsRoundedToBf16HaveTheSameBitsOnAnyNumberOfRanks) {
  run::TrainConfig config = small("");
  config.compress = "bf16";
  config.accumulate = 2;
  expect_same_run(config, {2, 4, 8});
}

TEST_F(RanksTest, TheReceiptSaysWhatGradientsWereRoundedTo) {
  ScratchFolder runs;
  run::TrainConfig config = small(runs / "plain");
  config.max_steps = 2;
  train(config, 2);
  config.out = runs / "rounded";
  config.compress = "bf16";
  train(config, 2);
  const auto difference = run::compare_runs(runs / "plain", runs / "rounded");
  ASSERT_TRUE(difference.ok());
  EXPECT_FALSE(difference->same_weights());
  std::string fields;
  for (const auto& field : difference->receipt) fields += field.field + " ";
  EXPECT_NE(fields.find("compress"), std::string::npos) << fields;
}

// Four ranks begin, two go on, one finishes.
TEST_F(RanksTest, ARunGoesOnWithAnotherNumberOfRanks) {
  ScratchFolder runs;
  run::TrainConfig config = small(runs / "whole");
  train(config, 1);
  config.out = runs / "parts";
  for (const auto& [world, steps] : {std::pair{4, 7}, std::pair{2, 13}, std::pair{1, 1000}}) {
    StopAfter stop(steps);
    train_on(
        world,
        [&, goes_on = world < 4](Collective* ranks) {
          run::TrainObserver* const observer = ranks == nullptr || ranks->rank() == 0 ? &stop : nullptr;
          return goes_on ? run::Session::resume(config.out, {}, {}, observer, ranks)
                         : std::make_unique<run::Session>(config, run::Registries{}, observer, ranks);
        },
        &stop.stop);
  }
  expect_same_files(runs / "whole", runs / "parts");
}

// The stop comes after the ranks have agreed about the step, and ends its validation.
TEST_F(RanksTest, AValidationThatAStopEndsComesAgain) {
  ScratchFolder runs;
  run::TrainConfig config = small(runs / "whole");
  config.max_steps = 6;
  config.val_every = "3steps";
  train(config, 2);
  config.out = runs / "parts";
  StopAfter stop(3);
  train_on(
      2,
      [&](Collective* ranks) {
        return std::make_unique<run::Session>(config, run::Registries{}, ranks->rank() == 0 ? &stop : nullptr,
                                              ranks);
      },
      &stop.stop);
  train_on(2, [&](Collective* ranks) { return run::Session::resume(config.out, {}, {}, nullptr, ranks); });
  expect_same_files(runs / "whole", runs / "parts");
}

TEST_F(RanksTest, BadRecordsOfAllRanksAreCountedAndListed) {
  ScratchFolder runs;
  const SampleData damaged = make_sample_data(runs / "corrupt", 40);
  for (const char* name :
       {"ring/00001.jpg", "disc/00002.jpg", "star/00003.jpg", "plus/00004.jpg", "bar/00005.jpg"}) {
    damage_record(damaged.train, damaged.jpegs + "/" + name);
    damage_record(damaged.val, damaged.jpegs + "/" + name);
  }
  run::TrainConfig config = small(runs / "1");
  config.data = damaged.split;
  train(config, 1);
  config.out = runs / "4";
  train(config, 4);
  expect_same_files(runs / "1", runs / "4");
  EXPECT_EQ(text_of(runs / "1/quarantine.txt"), text_of(runs / "4/quarantine.txt"));
  EXPECT_NE(text_of(runs / "4/quarantine.txt").find("checksum"), std::string::npos);
}

TEST_F(RanksTest, AStepThatIsNotFiniteOnOneRankIsSkippedByAll) {
  ScratchFolder runs;
  run::TrainConfig config = small("");
  config.max_steps = 6;
  train_overflowing(config, 4, runs);
  expect_same_files(runs / "alone", runs / "together");
}

TEST_F(RanksTest, RanksThatDifferAreRefusedWithTheDifference) {
  ScratchFolder runs;
  std::vector<std::string> messages =
      refusals([](int rank, run::TrainConfig& config) { config.lr = rank == 0 ? 0.1 : 0.2; });
  EXPECT_EQ(
      messages[0],
      "[train] the processes differ in --lr: rank 1 has '0.2', rank 0 '0.1'; start all of them the same way");
  EXPECT_EQ(messages[1], "");  // one says it
  messages = refusals([](int rank, run::TrainConfig& config) {
    if (rank == 1) config.data = data_.val;
  });
  EXPECT_NE(messages[0].find("differ in the dataset"), std::string::npos) << messages[0];
  for (const int with_images : {0, 1}) {
    messages = refusals([&](int rank, run::TrainConfig& config) {
      config.out = runs / "run";
      if (rank == with_images) config.data = data_.jpegs;
    });
    EXPECT_NE(messages[0].find("differ in what --data is"), std::string::npos) << messages[0];
    EXPECT_EQ(messages[1], "");
  }
  messages = refusals([](int rank, run::TrainConfig& config) {
    if (rank == 1) config.data = "nowhere";
  });
  EXPECT_NE(messages[0].find("[ranks] rank 1: "), std::string::npos) << messages[0];
  EXPECT_NE(messages[0].find("nowhere"), std::string::npos) << messages[0];
}

TEST_F(RanksTest, GrainsThatDontGoWithTheRestAreRefused) {
  const auto refused = [](const std::function<void(run::TrainConfig&)>& change, const std::string& part) {
    const std::string message = refusals([&](int, run::TrainConfig& config) { change(config); })[0];
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused([](auto& c) { c.grains = 6; }, "--grains 6; use a power of two");
  refused([](auto& c) { c.grains = 1; }, "--grains 1 is less than the 2 processes");
  refused([](auto& c) { c.grains = 32; }, "--grains 32 does not divide --batch 16");
  refused([](auto& c) { c.grains = 0, c.batch = 20; }, "the default, --grains 8 does not divide --batch 20");
  const auto refused_alone = [](const std::function<void(run::TrainConfig&)>& change,
                                const std::string& part) {
    run::TrainConfig config = small("");
    config.grains = 1;
    change(config);
    try {
      run::Session session(config);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused_alone([](auto& c) { c.sync_bn = true; },
                "--sync-bn computes batch norm's statistics over all grains");
  refused_alone([](auto& c) { c.compress = "bf16"; }, "--compress bf16 applies to sums of gradients");
  refused([](auto& c) { c.sync_bn = true, c.checkpoint_activations = {"group?"}; },
          "--sync-bn does not work with --checkpoint-activations");
  refused([](auto& c) { c.shard_optimizer = true, c.optimizer = "lamb"; },
          "--shard-optimizer: lamb needs whole tensors; use one of adam, adam8bit, adamw, sgd");
  refused([](auto& c) { c.overfit_batch = 5; }, "--overfit-batch trains in one process");
}

// A rank that is gone in the middle of training: the others say which, and what they waited for.
TEST_F(RanksTest, ARankThatDiesEndsTheRunAndKeepsTheCheckpoint) {
  const std::string message = message_when_a_rank_dies(small(""), 400);
  EXPECT_NE(message.find("[ranks] rank 0 of 4 waited for "), std::string::npos) << message;
}

}  // namespace
}  // namespace dlpipe::test
