#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dlpipe/base/rng.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

static std::string text_of(const std::string& path) {
  return *formats::read_file(path);
}

// Waits until the run has logged a line for `step`; false when the program ends before.
static bool wait_for_step(RunningProgram& program, const std::string& run, int64_t step) {
  while (!program.ended()) {
    const auto text = formats::read_file(run + "/metrics.jsonl");
    if (text.ok() && std::count(text->begin(), text->end(), '\n') >= step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

static void expect_same_run(const std::string& a, const std::string& b) {
  const Outcome diff = run_dlpipe({"diff", a, b});
  EXPECT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_EQ(text_of(a + "/metrics.jsonl"), text_of(b + "/metrics.jsonl"));
  EXPECT_EQ(text_of(a + "/checkpoints/last/model.safetensors"),
            text_of(b + "/checkpoints/last/model.safetensors"));
}

/// Trains with kills at random moments and resumes on other thread counts, until the run is whole; answers
/// the kills.
static int64_t train_with_kills(const std::string& run, RandomStream& random) {
  std::vector<std::string> arguments = train_arguments(run, {"--checkpoint-every", "3steps"});
  int64_t killed = 0;
  for (int round = 0; round < 60; ++round) {
    RunningProgram program(arguments);
    if (killed < 6 && wait_for_step(program, run, static_cast<int64_t>(random.below(38)))) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(30'000)));
      program.send(SIGKILL);
    }
    const Outcome outcome = program.wait();
    if (outcome.exit_code == 0) return killed;
    EXPECT_EQ(outcome.signal, SIGKILL) << outcome.err;
    ++killed;
    if (!fs::exists(run + "/config.toml")) continue;  // killed before the run began
    arguments = {"train", "--resume", run, "--threads", std::to_string(1 + killed % 3)};
  }
  ADD_FAILURE() << "the run makes no progress";
  return killed;
}

TEST(Train, KilledAtRandomMomentsItResumesBitForBitOnOtherThreadCounts) {
  const char* const more = std::getenv("DLPIPE_KILL_ROUNDS");  // to look for rare moments by hand
  const int runs = more != nullptr ? std::atoi(more) : 1;
  RandomStream random(7, 0);
  int64_t killed = 0;
  for (int i = 0; i < runs; ++i) {
    ScratchDirectory folder;
    killed += train_with_kills(folder / "run", random);
    expect_same_run(trained_run().run, folder / "run");
  }
  EXPECT_GE(killed, 3 * runs);
  RecordProperty("killed", std::to_string(killed));
}

TEST(Train, ControlCSavesAndExitsThree) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  RunningProgram program(
      train_arguments(run, {"--epochs", "1000", "--checkpoint-every", "never", "--val-every", "never"}));
  ASSERT_TRUE(wait_for_step(program, run, 5));
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("--resume " + run), std::string::npos) << outcome.err;
  EXPECT_TRUE(fs::exists(run + "/checkpoints/last/state.json"));
  const auto receipt = formats::read_json(run + "/receipt.json");
  ASSERT_TRUE(receipt.ok());
  EXPECT_FALSE((*receipt)["finished"].as_bool(true));
}

TEST(Train, TheWrittenConfigRunsTheSameAgain) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(
      {"train", "--config", trained_run().run + "/config.toml", "--out", folder / "again", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_same_run(trained_run().run, folder / "again");
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ((*json)["steps"].as_int(), 40);
}

TEST(Train, EndsWithTablesThatAddUp) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word :
       {"samples/s alone", "Speed up", "training step", "unaccounted: ", "validation after epoch"}) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
  }
  const auto ledger = formats::read_json(folder / "run/ledger.json");
  ASSERT_TRUE(ledger.ok());
  EXPECT_LT((*ledger)["unaccounted_share"].as_double(1), 0.1);  // the strict check is in trainer_test
}

TEST(Train, HelpShowsEveryOptionWithItsDefaultAndTheTopics) {
  const Outcome help = run_dlpipe({"train", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text :
       {"--batch INT=128", "--schedule", "one_cycle", "--no-decay-vectors", "--help ops"}) {
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  }
  const Outcome ops = run_dlpipe({"train", "--help", "ops"});
  EXPECT_EQ(ops.exit_code, 0);
  for (const char* text : {"rrc(", "hflip(", "pad_crop(", "default"}) {
    EXPECT_NE(ops.out.find(text), std::string::npos) << text;
  }
  const Outcome models = run_dlpipe({"train", "--help", "models"});
  EXPECT_NE(models.out.find("resnet18"), std::string::npos) << models.out;
}

TEST(Train, OverfitBatchIsASmokeTest) {
  const Outcome good = run_dlpipe({"train", "--data", trained_run().data.train, "--model", "lenet", "--batch",
                                   "16", "--lr", "0.01", "--schedule", "constant", "--overfit-batch", "100"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  const Outcome bad = run_dlpipe({"train", "--data", trained_run().data.train, "--model", "lenet", "--batch",
                                  "16", "--lr", "0", "--overfit-batch", "3"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.err.find("not learnt by heart"), std::string::npos) << bad.err;
}

TEST(Train, ANonfiniteLossStopsAndNamesTheLayer) {
  ScratchDirectory folder;
  const Outcome outcome =
      run_dlpipe(train_arguments(folder / "run", {"--lr", "1e6", "--schedule", "constant"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("is not finite; the first is in "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("no checkpoint was saved yet"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
