// dlpipe train: what ends a run, and how it goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/text.h"
#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

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

TEST(Train, MilestonesAndFactorsAreFiniteNumbers) {
  const ScratchDirectory folder;
  for (const std::string milestone : {"nan", "inf", "1e300", "-1", "soon"}) {
    const Outcome outcome =
        run_dlpipe(train_arguments(folder / "run", {"--schedule", "step", "--milestones", "1," + milestone}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("--milestones holds '" + milestone + "'; expected epochs, such as 30,60,80"),
              std::string::npos)
        << outcome.err;
  }
  for (const std::string factor : {"nan", "inf", "big"}) {
    const Outcome outcome = run_dlpipe(train_arguments(folder / "run", {"--lr-scale", "*.bias=" + factor}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("--lr-scale *.bias=" + factor + "; give GLOB=FACTOR"), std::string::npos)
        << outcome.err;
  }
}

// It has no run directory to go on from, also where one was named.
TEST(Train, AStoppedTestOnOneBatchSaysThatNothingIsSaved) {
  const ScratchDirectory folder;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--out", folder / "run"}}) {
    std::vector<std::string> words = {"train", trained_run().data.train, "--model",   "mlp", "--batch",
                                      "2",     "--overfit-batch",        "1000000000"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string err_file = folder / "err";
    std::ofstream{err_file};
    RunningProgram program(words, {.err = err_file});
    // It is said in training, where a signal ends it in good order.
    while (!program.ended() && file_text(err_file).find("memory plan") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    program.send(SIGINT);
    const Outcome outcome = program.wait();
    const std::string err = file_text(err_file);
    EXPECT_EQ(outcome.exit_code, 3) << err;
    EXPECT_NE(err.find("; nothing is saved\n"), std::string::npos) << err;
    EXPECT_EQ(err.find("--resume"), std::string::npos) << err;
    EXPECT_EQ(outcome.out.find("run directory"), std::string::npos) << outcome.out;
    fs::remove(err_file);
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

// A limit on file sizes stands in for a full disk.
TEST(Train, AFullDiskNamesTheLastCheckpointAndTheCommandThatGoesOn) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_dlpipe(train_arguments(run, {"--epochs", "1", "--schedule", "constant"})).exit_code, 0);
  Outcome outcome;
  {
    const Limited files(RLIMIT_FSIZE, 100'000);
    outcome = run_dlpipe({"train", "--resume", run, "--epochs", "2"});
  }
  EXPECT_EQ(outcome.exit_code, 1) << outcome.signal;
  EXPECT_NE(outcome.err.find(".partial/"), std::string::npos) << outcome.err;
  EXPECT_NE(
      outcome.err.find("; the last good checkpoint is " + run +
                       "/checkpoints/step-000000020; resume it with: `dlpipe train --resume " + run + "`"),
      std::string::npos)
      << outcome.err;
  EXPECT_EQ(run_dlpipe({"train", "--resume", run, "--epochs", "2"}).exit_code, 0);
}

// As when an ssh connection drops: the terminal hangs up, and nothing can be written to it any more.
TEST(Train, ATerminalThatClosesSavesTheRun) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  Terminal terminal;
  Streams streams;
  streams.terminal = terminal.device();
  RunningProgram program(
      train_arguments(run, {"--checkpoint-every", "never", "--val-every", "never", "--epochs", "1000"}),
      streams);
  while (!program.ended()) {
    terminal.take_shown();  // else the program waits for a reader
    const auto text = formats::read_file(run + "/metrics.jsonl");
    if (text.ok() && std::count(text->begin(), text->end(), '\n') >= 5) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_FALSE(program.ended()) << "before its fifth step";
  terminal.close();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_TRUE(fs::exists(run + "/checkpoints/last/state.json"));
  const auto receipt = formats::read_json(run + "/receipt.json");
  ASSERT_TRUE(receipt.ok());
  EXPECT_FALSE((*receipt)["finished"].as_bool(true));
}

// `nohup dlpipe train`
TEST(Train, AHangUpThatIsIgnoredStaysIgnored) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  const auto former = ::signal(SIGHUP, SIG_IGN);
  RunningProgram program(train_arguments(run));
  ::signal(SIGHUP, former);
  while (!program.ended()) {
    program.send(SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(Train, NoEpochsSaveAndValidateTheInitialWeights) {
  ScratchDirectory folder;
  const Outcome outcome =
      run_dlpipe(train_arguments(folder / "run", {"--epochs", "0", "--schedule", "constant"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("validation after epoch 0.00"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_dlpipe({"eval", "--ckpt", folder / "run", "--data", trained_run().data.val}).exit_code, 0);
  const Outcome longer = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "1"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.out.find("20 steps"), std::string::npos) << longer.out << longer.err;
}

/// The command that a message names between backticks, without the program's name.
static std::vector<std::string> suggested_command(const std::string& message) {
  const size_t begin = message.find("`dlpipe ");
  const size_t end = message.find('`', begin + 1);
  if (end == std::string::npos) return {};
  std::istringstream words(message.substr(begin + 1, end - begin - 1));
  std::vector<std::string> command(std::istream_iterator<std::string>(words), {});
  command.erase(command.begin());
  return command;
}

TEST(Train, WhatCannotChangeOnResumeIsOfferedAsACommandThatWorks) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_dlpipe(train_arguments(run, {"--max-steps", "2"})).exit_code, 0);
  const auto other = [&](const std::string& option, const std::string& value) {
    const Outcome refused = run_dlpipe({"train", "--resume", run, option, value});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    std::vector<std::string> command = suggested_command(refused.err);
    std::ranges::replace(command, std::string("NEW"), folder / "new");
    return run_dlpipe(command);
  };
  const Outcome faster = other("--lr", "0.2");
  EXPECT_EQ(faster.exit_code, 0) << faster.err;
  EXPECT_NE(file_text(folder / "new/config.toml").find("\nlr = 0.2\n"), std::string::npos);
  const Outcome elsewhere = other("--out", folder / "elsewhere");
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_TRUE(fs::exists(folder / "elsewhere/receipt.json"));
  EXPECT_EQ(elsewhere.err.find("times; the last one"), std::string::npos) << elsewhere.err;
}

TEST(Train, OptionsMayBeRepeatedOnResume) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_dlpipe(train_arguments(run, {"--max-steps", "2", "--seed", "7"})).exit_code, 0);
  const Outcome same = run_dlpipe({"train", "--resume", run, "--seed", "7", "--model", "lenet", "--batch",
                                   "16", "--lr", "0.020", "--out", run + "/"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(run_dlpipe({"train", "--resume", run, "--seed", "8"}).exit_code, 2);
  EXPECT_EQ(run_dlpipe({"train", "--resume", run, "--batch", "many"}).exit_code, 2);
}

TEST(Train, ARunCanBeMadeLongerWhereItsScheduleAllowsIt) {
  ScratchDirectory folder;
  const auto train = [&](const std::string& name, const std::string& epochs) {
    return run_dlpipe(
        train_arguments(folder / name, {"--epochs", epochs, "--schedule", "step", "--milestones", "1,3"}));
  };
  ASSERT_EQ(train("straight", "3").exit_code, 0);
  ASSERT_EQ(train("longer", "2").exit_code, 0);
  const Outcome outcome = run_dlpipe({"train", "--resume", folder / "longer", "--epochs", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("the whole run"), std::string::npos) << "the times are the session's";
  const auto ledger = formats::read_json(folder / "longer/ledger.json");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ((*ledger)["steps"].as_int(), 60);
  EXPECT_EQ((*ledger)["session_steps"].as_int(), 20);
  expect_same_run(folder / "straight", folder / "longer");

  const Outcome less = run_dlpipe({"train", "--resume", folder / "longer", "--epochs", "1"});
  EXPECT_EQ(less.exit_code, 2);
  EXPECT_NE(less.err.find("already done 60 steps"), std::string::npos) << less.err;

  // A cosine's rates depend on the whole length; the message's command works.
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "cosine")).exit_code, 0);
  const Outcome refused = run_dlpipe({"train", "--resume", folder / "cosine", "--epochs", "3"});
  EXPECT_EQ(refused.exit_code, 2);
  const std::vector<std::string> command = suggested_command(refused.err);
  ASSERT_FALSE(command.empty()) << refused.err;
  const Outcome from_weights = run_dlpipe(command);
  EXPECT_EQ(from_weights.exit_code, 0) << from_weights.err;
  EXPECT_TRUE(fs::exists(folder / "cosine-longer/checkpoints/last"));
  const Outcome again = run_dlpipe({"train", "--resume", folder / "cosine", "--epochs", "3"});
  EXPECT_EQ(suggested_command(again.err).back(), folder / "cosine-longer-2");
}

// Its own classifier is trained by then: --reset-head, which its config.toml holds, is for the weights that it began with.
TEST(Train, ALongerRunOfAFineTunedOneKeepsItsClassifier) {
  ScratchDirectory folder;
  const Outcome tuned =
      run_dlpipe(train_arguments(folder / "tuned", {"--init", trained_run().run, "--reset-head"}));
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("fresh: "), std::string::npos) << tuned.err;
  const Outcome refused = run_dlpipe({"train", "--resume", folder / "tuned", "--epochs", "3"});
  EXPECT_EQ(refused.exit_code, 2);
  const std::vector<std::string> command = suggested_command(refused.err);
  ASSERT_FALSE(command.empty()) << refused.err;
  const Outcome longer = run_dlpipe(command);
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.err.find("initial weights: "), std::string::npos) << longer.err;
  EXPECT_EQ(longer.err.find("fresh: "), std::string::npos) << longer.err;
}

TEST(Train, ResumesFromAnyDirectoryAndWithTheSameDataElsewhere) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.split, folder / "data", fs::copy_options::recursive);
  const fs::path home = fs::current_path();
  fs::current_path(folder.path());
  const Outcome first = run_dlpipe(train_arguments(
      folder / "run", {"--data", "data", "--schedule", "constant", "--epochs", "1", "--out", "run"}));
  fs::current_path(home);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string config = file_text(folder / "run/config.toml");
  EXPECT_NE(config.find("data-typed = \"data\""), std::string::npos) << config;
  EXPECT_NE(config.find("data = \"" + folder / "data\""), std::string::npos) << config;
  const Outcome elsewhere = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "2"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;

  fs::rename(folder / "data", folder / "moved");
  const Outcome gone = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "3"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("is missing; give its current place with --data"), std::string::npos) << gone.err;
  const Outcome moved =
      run_dlpipe({"train", "--resume", folder / "run", "--epochs", "3", "--data", folder / "moved"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;

  const Outcome other =
      run_dlpipe({"train", "--resume", folder / "run", "--epochs", "4", "--data", folder / "moved/val"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds dataset "), std::string::npos) << other.err;
  EXPECT_NE(other.err.find(", but the run began with "), std::string::npos) << other.err;
  // The same where the other's samples don't fill a batch.
  fs::create_directories(folder / "three/ring");
  for (const char* name : {"00000.jpg", "00001.jpg", "00002.jpg"})
    fs::copy_file(trained_run().data.jpegs + "/ring/" + name, folder / "three/ring/" + name);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "three", folder / "few"}).exit_code, 0);
  for (const char* option : {"--data", "--val"}) {
    const Outcome few = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "4", "--data",
                                    folder / "moved", option, folder / "few"});
    EXPECT_EQ(few.exit_code, 2);
    EXPECT_NE(few.err.find(folder / "few holds dataset "), std::string::npos) << few.err;
  }
}

// A folder's name is bytes; a run's config.toml is UTF-8.
TEST(Train, NamesThatAreNoUtf8AreFoundAgainOnResume) {
  ScratchDirectory folder;
  const std::string data = folder / "d\xe9", run = folder / "r\xe9";
  fs::copy(trained_run().data.split, data, fs::copy_options::recursive);
  ASSERT_EQ(run_dlpipe(train_arguments(run, {"--data", data, "--max-steps", "1"})).exit_code, 0);
  const Outcome resumed = run_dlpipe({"train", "--resume", run, "--max-steps", "2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(file_text(run + "/metrics.jsonl").find("\"step\":2,"), std::string::npos);
  EXPECT_EQ(run_dlpipe({"doctor", run}).exit_code, 0);
}

TEST(Train, AValidationSetThatMovedWithItsDataIsAskedFor) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.split, folder / "data", fs::copy_options::recursive);
  const Outcome first = run_dlpipe(
      train_arguments(folder / "run", {"--data", folder / "data/train", "--val", folder / "data/val",
                                       "--schedule", "constant", "--epochs", "1"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  fs::rename(folder / "data", folder / "moved");
  std::vector<std::string> command = {"train", "--resume", folder / "run",        "--epochs",
                                      "2",     "--data",   folder / "moved/train"};
  const Outcome gone = run_dlpipe(command);
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("the run's validation set " +
                          folder / "data/val is missing; give its current place with --val"),
            std::string::npos)
      << gone.err;
  command.insert(command.end(), {"--val", folder / "moved/val"});
  const Outcome moved = run_dlpipe(command);
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
}

TEST(Train, ResumingARunThatHasEndedSaysSoAndKeepsItsLedger) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "run")).exit_code, 0);
  const std::string ledger = file_text(folder / "run/ledger.json");
  const Outcome outcome = run_dlpipe({"train", "--resume", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("nothing left to train: the run is at step 40"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("memory: "), std::string::npos) << "no step has measured any";
  EXPECT_EQ(file_text(folder / "run/ledger.json"), ledger);
  const auto json = formats::Json::parse(run_dlpipe({"train", "--resume", folder / "run", "--json"}).out);
  ASSERT_TRUE(json.ok());
  std::vector<formats::Json> lines;
  for (const std::string& line : split(file_text(folder / "run/metrics.jsonl"), '\n'))
    if (const auto one = formats::Json::parse(line); one.ok()) lines.push_back(*one);
  const auto last = [&](const char* key) {
    return std::find_if(lines.rbegin(), lines.rend(), [&](const auto& line) { return line.contains(key); });
  };
  EXPECT_EQ((*json)["loss"], (*last("loss"))["loss"]) << "that of the run's last step";
  EXPECT_EQ((*json)["validation"]["loss"], (*last("val_loss"))["val_loss"]);
  EXPECT_EQ((*json)["validation"]["metrics"]["top1"], (*last("val_loss"))["val_top1"]);
  EXPECT_EQ((*json)["steps"].as_int(), 40);
}

}  // namespace dlpipe::test
