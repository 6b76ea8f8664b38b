#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "dlpipe/base/rng.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/receipt.h"
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

TEST(Train, PicturesAreTrainedOnWithoutAnIngest) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "8"}).exit_code, 0);
  const std::string run = folder / "run";
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "pictures", "--model", "lenet", "--batch", "16", "--schedule",
                  "constant", "--max-steps", "3", "--checkpoint-every", "never", "--out", run});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("linked 80 pictures"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_dlpipe({"verify", run + "/linked"}).exit_code, 0);
  // Goes on with the links that it has; a picture that changed in between is replaced, and named.
  const std::string one = folder / "pictures/disc/00003.jpg";
  ASSERT_TRUE(fs::exists(one));
  fs::remove(one);
  const Outcome more = run_dlpipe({"train", "--resume", run, "--max-steps", "20", "--epochs", "4"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(more.err.find("linked 80 pictures"), std::string::npos) << more.err;
  EXPECT_NE(text_of(run + "/quarantine.txt").find("disc/00003.jpg"), std::string::npos);
  const Outcome verified = run_dlpipe({"verify", run + "/linked"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_NE((verified.out + verified.err).find("disc/00003.jpg"), std::string::npos) << verified.out;
}

TEST(Train, ARunOnPicturesGoesOnFromAnywhereAndAfterItWasMoved) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "4"}).exit_code, 0);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());  // all paths are given from here
  const Outcome began =
      run_dlpipe({"train", "--data", "pictures", "--val", "pictures", "--model", "lenet", "--batch", "16",
                  "--schedule", "constant", "--max-steps", "2", "--out", "run"});
  fs::current_path(before);
  ASSERT_EQ(began.exit_code, 0) << began.err;
  const Outcome elsewhere =
      run_dlpipe({"train", "--resume", folder / "run", "--max-steps", "3", "--epochs", "9"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  fs::rename(folder / "run", folder / "moved");
  const Outcome moved = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "4"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(moved.err.find("is no dataset"), std::string::npos) << "nothing is linked again: " << moved.err;
  // Pictures may be named again, too, and where they are now: the same ones.
  const Outcome named =
      run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "5", "--data", folder / "pictures"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  fs::rename(folder / "pictures", folder / "elsewhere");
  const Outcome elsewhere_now = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "6",
                                            "--data", folder / "elsewhere", "--val", folder / "elsewhere"});
  EXPECT_EQ(elsewhere_now.exit_code, 0) << elsewhere_now.err;
  EXPECT_FALSE(fs::exists(folder / "moved/quarantine.txt"));
  // Others are refused, and the links stay.
  ASSERT_EQ(run_dlpipe({"synth", folder / "others", "--per-class", "4", "--seed", "9"}).exit_code, 0);
  std::ofstream(folder / "others.tgz") << "no archive";
  EXPECT_NE(run_dlpipe({"train", "--resume", folder / "moved", "--data", folder / "others.tgz"}).exit_code,
            0);
  EXPECT_EQ(run_dlpipe({"verify", folder / "moved/linked"}).exit_code, 0);
  const Outcome others = run_dlpipe({"train", "--resume", folder / "moved", "--data", folder / "others"});
  EXPECT_NE(others.err.find("and the run began with"), std::string::npos) << others.err;
}

TEST(Train, PicturesOfATarAreTrainedAndValidatedOn) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "4"}).exit_code, 0);
  ASSERT_EQ(std::system(("tar -C " + folder / "pictures" + " -cf " + folder / "a.tar" + " .").c_str()), 0);
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "a.tar", "--val", folder / "a.tar", "--model", "lenet",
                  "--batch", "16", "--schedule", "constant", "--epochs", "1", "--out", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("(40 samples, "), std::string::npos) << outcome.err;
  const Outcome more =
      run_dlpipe({"train", "--resume", folder / "run", "--data", folder / "?.tar", "--epochs", "2"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
}

TEST(Train, PicturesInterruptedInTheFirstEpochResumeBitForBit) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "40", "--size", "32"}).exit_code, 0);
  const auto words = [&](const std::string& out) {
    return std::vector<std::string>{"train",
                                    "--data",
                                    folder / "pictures",
                                    "--val",
                                    folder / "pictures",
                                    "--model",
                                    "lenet",
                                    "--batch",
                                    "4",
                                    "--epochs",
                                    "1",
                                    "--augment",
                                    "pad_crop(32,4) hflip",
                                    "--checkpoint-every",
                                    "never",
                                    "--val-every",
                                    "never",
                                    "--out",
                                    out};
  };
  ASSERT_EQ(run_dlpipe(words(folder / "whole")).exit_code, 0);
  const std::string run = folder / "run";
  RunningProgram program(words(run));
  ASSERT_TRUE(wait_for_step(program, run, 2));
  program.send(SIGINT);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 3) << stopped.err;
  const Outcome resumed = run_dlpipe({"train", "--resume", run});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("is no dataset"), std::string::npos) << resumed.err;
  expect_same_run(folder / "whole", run);
}

// What a wrong word costs: no reading of all files.
TEST(Train, WrongChainsAreNamedBeforePicturesAreLinked) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "2"}).exit_code, 0);
  for (const char* option : {"--augment", "--val-augment"}) {
    const Outcome outcome = run_dlpipe({"train", "--data", folder / "pictures", "--model", "lenet", "--batch",
                                        "4", option, "hflp", "--out", folder / "run"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find("did you mean 'hflip'?"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("linked"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

/// As Ctrl-C or a kill in the middle of linking leaves it: a run that holds no config yet.
TEST(Train, ARunThatWasStoppedWhileItLinkedSaysHowToGoOn) {
  ScratchDirectory folder;
  fs::create_directories(folder / "run/checkpoints");
  fs::create_directories(folder / "run/linked.partial");
  const Outcome outcome = run_dlpipe({"train", "--resume", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("stopped before its first step; run the command that began it once more"),
            std::string::npos)
      << outcome.err;
}

TEST(Train, ControlCWhileItLinksLosesNothing) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "400", "--size", "24"}).exit_code, 0);
  const std::string run = folder / "run";
  const std::vector<std::string> words = {
      "train",      "--data",   folder / "pictures", "--model", "lenet",       "--batch", "16",
      "--schedule", "constant", "--max-steps",       "2",       "--val-every", "never",   "--out",
      run};
  bool was_interrupted = false;
  for (int i = 0; i < 50 && !was_interrupted; ++i) {
    fs::remove_all(run);
    RunningProgram program(words);
    while (!program.ended() && !fs::exists(run + "/linked.partial/ingest.list"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    program.send(SIGINT);
    program.wait();
    was_interrupted = fs::exists(run + "/linked.partial");
  }
  ASSERT_TRUE(was_interrupted);
  const Outcome again = run_dlpipe(words);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("linked 4,000 pictures"), std::string::npos) << again.err;
  EXPECT_EQ(run_dlpipe({"verify", run + "/linked"}).exit_code, 0);
}

TEST(Train, PicturesThatCantBeLinkedAreNamed) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "2"}).exit_code, 0);
  const auto train = [&](const std::string& data, const std::string& out) {
    const Outcome outcome =
        run_dlpipe({"train", "--data", data, "--model", "lenet", "--batch", "16", "--out", out});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(fs::exists(out)) << out;
    return outcome.err;
  };
  EXPECT_NE(train(folder / "pictures", folder / "pictures/run").find("choose another --out"),
            std::string::npos);
  fs::create_directory(folder / "empty");
  EXPECT_NE(train(folder / "empty", folder / "run").find("is no dataset"), std::string::npos);
  EXPECT_NE(train(folder / "none", folder / "run").find("no dataset"), std::string::npos);
  std::ofstream(folder / "a.txt") << std::string(4000, 'a');
  EXPECT_NE(train(folder / "a.txt", folder / "run").find("is in none"), std::string::npos);
  ASSERT_EQ(std::system(("tar -C " + folder / "pictures" + " -czf " + folder / "a.tgz" + " .").c_str()), 0);
  EXPECT_NE(train(folder / "a.tgz", folder / "run")
                .find("make a dataset of it: dlpipe ingest " + folder / "a.tgz DST"),
            std::string::npos);
}

// A dataset of `lines` about the pictures of `folder`, trained on as it is.
static Outcome train_on_list(const ScratchDirectory& folder, const std::string& name,
                             const std::string& lines, const std::vector<std::string>& fields) {
  std::ofstream(folder / ("pictures/" + name)) << lines;
  std::vector<std::string> ingest = {"ingest", folder / ("pictures/" + name), folder / (name + ".data")};
  for (const std::string& field : fields) ingest.insert(ingest.end(), {"--field", field});
  const Outcome ingested = run_dlpipe(ingest);
  EXPECT_EQ(ingested.exit_code, 0) << ingested.err;
  return run_dlpipe({"train", "--data", folder / (name + ".data"), "--model", "lenet", "--batch", "2",
                     "--max-steps", "1", "--out", folder / (name + ".run")});
}

TEST(Train, FieldsThatItCantTrainOnYetAreNamedWithWhatToDo) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "pictures", "--per-class", "2"}).exit_code, 0);
  const auto expect_refused = [&](const Outcome& outcome, const std::string& count,
                                  const std::string& fields) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    const std::vector<std::string> parts = {count + " samples of ", " have no class; ",
                                            ", not on " + fields + ";", "--label COLUMN", "dlpipe.Loader"};
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
  };
  expect_refused(
      train_on_list(folder, "boxes.jsonl", R"({"path": "bar/00000.jpg", "box": [[1, 2, 9, 9]], "kind": ["a"]}
{"path": "bar/00001.jpg", "box": [], "kind": []}
)",
                    {"box:boxes", "kind:labels:box"}),
      "2 of 2", "box (boxes), kind (labels)");
  expect_refused(
      train_on_list(folder, "tags.csv", "path,tags\nbar/00000.jpg,a|b\nbar/00001.jpg,b\n", {"tags:labels"}),
      "2 of 2", "tags (labels)");
  expect_refused(
      train_on_list(folder, "age.csv", "path,age\nbar/00000.jpg,3.5\nbar/00001.jpg,4\n", {"age:number"}),
      "2 of 2", "age (tensor)");
  // Fields beside a class are left aside, and said to be.
  const Outcome both = train_on_list(
      folder, "both.csv", "path,label,age\nbar/00000.jpg,a,3\nbar/00001.jpg,b,4\n", {"age:number"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.err.find("lenet is not trained on age (tensor)"), std::string::npos) << both.err;
  // And so of what is validated and judged on: classes a and b, which no picture has itself.
  const Outcome val =
      run_dlpipe({"train", "--data", folder / "both.csv.data", "--val", folder / "tags.csv.data", "--model",
                  "lenet", "--batch", "2", "--max-steps", "1", "--out", folder / "val"});
  expect_refused(val, "2 of 2", "tags (labels)");
  expect_refused(run_dlpipe({"eval", "--ckpt", folder / "both.csv.run", folder / "tags.csv.data"}), "2 of 2",
                 "tags (labels)");
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
  for (const char* word : {"samples/s alone", "Speed up", "the whole run", "start ", "unaccounted: "})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
  for (const char* word : {"memory plan", "validation after epoch", "samples/s  data"})
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
  const auto ledger = formats::read_json(folder / "run/ledger.json");
  ASSERT_TRUE(ledger.ok());
  EXPECT_LT((*ledger)["unaccounted_share"].as_double(1), 0.1);  // the strict check is in trainer_test
}

#if !defined(__SANITIZE_ADDRESS__)  // whose search for leaks at exit is none of the program's time
static double seconds_of(const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run_dlpipe(arguments).exit_code, 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Two readings of the same run, one from outside. What the ledger can't hold is the process's exit, and being
// made and waited for: as long as the slowest of some runs that do nothing takes. On a busy machine a run may lose
// more there by chance; time that the ledger leaves out is left out of each.
TEST(Train, TheLedgerHoldsTheProcessesWholeWallTime) {
  constexpr int kRuns = 5;
  constexpr double kTick = 0.02;  // in which the kernel says when a process began
  double nothing = 0;
  for (int i = 0; i < 3; ++i) nothing = std::max(nothing, seconds_of({"--version"}));
  std::string differences;
  for (int run = 0; run < kRuns; ++run) {
    ScratchDirectory folder;
    const double wall = seconds_of(train_arguments(
        folder / "run", {"--epochs", "60", "--val-every", "20epochs", "--checkpoint-every", "20epochs"}));
    const auto ledger = formats::read_json(folder / "run/ledger.json");
    ASSERT_TRUE(ledger.ok());
    for (const char* span : {"start", "validation", "checkpoint", "forward"})
      EXPECT_GT((*ledger)["spans"][span]["seconds"].as_double(), 0) << span;
    const double told = (*ledger)["wall_seconds"].as_double();
    if (std::abs(told - wall) <= 0.01 * wall + nothing + kTick) return;
    differences += concat(" ", told, " of ", wall);
  }
  ADD_FAILURE() << "seconds in the ledger and outside:" << differences;
}
#endif

TEST(Train, SmallLearningRatesKeepTheirDigits) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(
      train_arguments(folder / "run", {"--lr", "3e-5", "--schedule", "constant", "--epochs", "1"}));
  EXPECT_NE(outcome.err.find("lr 3.0e-05 "), std::string::npos) << outcome.err;
}

TEST(Train, DefaultsAreTheChosenOptimizersAndStandInTheConfig) {
  ScratchDirectory folder;
  const std::vector<std::string> arguments = {"train",       "--data",   trained_run().data.split,
                                              "--model",     "lenet",    "--optimizer",
                                              "adamw",       "--epochs", "0.1",
                                              "--batch",     "16",       "--out",
                                              folder / "run"};
  const Outcome outcome = run_dlpipe(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string config = text_of(folder / "run/config.toml");
  EXPECT_NE(config.find("\nlr = 0.001\n"), std::string::npos) << config;
  EXPECT_NE(config.find("\nweight-decay = 0.01\n"), std::string::npos) << config;
  EXPECT_EQ(config.find("\nmomentum = "), std::string::npos) << config;
  const Outcome help = run_dlpipe({"train", "--help", "optimizers"});
  EXPECT_NE(help.out.find("--lr 0.001  --beta1 0.9"), std::string::npos) << help.out;
  EXPECT_NE(run_dlpipe({"train", "--help", "schedules"}).out.find("--gamma 0.1"), std::string::npos);
}

TEST(Train, WhatAConfigFileSaysForAnotherChoiceIsLeftOutAndTold) {
  ScratchDirectory folder;
  std::ofstream(folder / "c.toml") << "optimizer = \"sgd\"\nlr = 0.02\nmomentum = 0.8\nmodel = \"lenet\"\n";
  const Outcome outcome =
      run_dlpipe({"train", "--config", folder / "c.toml", "--data", trained_run().data.split, "--optimizer",
                  "adam", "--epochs", "0.1", "--batch", "16", "--out", folder / "run"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--momentum does nothing with --optimizer adam; left out"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("lr = 0.02 is what"), std::string::npos) << outcome.err;
}

TEST(Train, ARunWithoutAStepSaysWhy) {
  const auto expect = [](const std::vector<std::string>& more, const std::string& part) {
    ScratchDirectory folder;
    const Outcome outcome = run_dlpipe(train_arguments(folder / "run", more));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  expect({"--epochs", "1", "--accumulate", "50"}, "a step takes 50 (--accumulate)");
  expect({"--freeze", "*"}, "--freeze leaves nothing to train");
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
  expect_same_run(folder / "straight", folder / "longer");

  const Outcome less = run_dlpipe({"train", "--resume", folder / "longer", "--epochs", "1"});
  EXPECT_EQ(less.exit_code, 2);
  EXPECT_NE(less.err.find("has done 60 steps already"), std::string::npos) << less.err;

  // A cosine's rates depend on the whole length; the message's command works.
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "cosine")).exit_code, 0);
  const Outcome refused = run_dlpipe({"train", "--resume", folder / "cosine", "--epochs", "3"});
  EXPECT_EQ(refused.exit_code, 2);
  const size_t begin = refused.err.find("dlpipe train --config ");
  ASSERT_NE(begin, std::string::npos) << refused.err;
  std::istringstream words(refused.err.substr(begin));
  std::vector<std::string> command(std::istream_iterator<std::string>(words), {});
  command.erase(command.begin());
  const Outcome from_weights = run_dlpipe(command);
  EXPECT_EQ(from_weights.exit_code, 0) << from_weights.err;
  EXPECT_TRUE(fs::exists(folder / "cosine-longer/checkpoints/last"));
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
  const std::string config = text_of(folder / "run/config.toml");
  EXPECT_NE(config.find("data-typed = \"data\""), std::string::npos) << config;
  EXPECT_NE(config.find("data = \"" + folder / "data\""), std::string::npos) << config;
  const Outcome elsewhere = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "2"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;

  fs::rename(folder / "data", folder / "moved");
  const Outcome gone = run_dlpipe({"train", "--resume", folder / "run", "--epochs", "3"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("is not there; say with --data where it is now"), std::string::npos) << gone.err;
  const Outcome moved =
      run_dlpipe({"train", "--resume", folder / "run", "--epochs", "3", "--data", folder / "moved"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;

  const Outcome other =
      run_dlpipe({"train", "--resume", folder / "run", "--epochs", "4", "--data", folder / "moved/val"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds dataset "), std::string::npos) << other.err;
  EXPECT_NE(other.err.find(", and the run began with "), std::string::npos) << other.err;
}

TEST(Train, SaysWhatIsLeftOutAndWhatOptionsDoNothing) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "alone", fs::copy_options::recursive);
  const Outcome outcome = run_dlpipe(
      train_arguments(folder / "run", {"--data", folder / "alone", "--batch", "48", "--epochs", "0.2",
                                       "--tta", "flip", "--bucket-mb", "1", "--peer-timeout", "3"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--bucket-mb and --peer-timeout do nothing in one process"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("320 training samples (each epoch leaves out 32 of them"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("--tta is kept for eval and predict"), std::string::npos) << outcome.err;
  const Outcome one = run_dlpipe(train_arguments(
      folder / "other", {"--overfit-batch", "1", "--label-smoothing", "0.1", "--mixup", "0.2"}));
  EXPECT_NE(one.err.find("it leaves out --mixup, --label-smoothing, --out"), std::string::npos) << one.err;
}

TEST(Train, ALimitedRunTakesASubsetOfTheWholeDataset) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run", {"--limit", "64", "--epochs", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("64 of 320 samples, by seed 3"), std::string::npos) << outcome.err;
  EXPECT_NE(text_of(folder / "run/receipt.json").find("64 of 320 samples, by seed 3"), std::string::npos);
}

TEST(Train, ResumingARunThatHasEndedSaysSoAndKeepsItsLedger) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "run")).exit_code, 0);
  const std::string ledger = text_of(folder / "run/ledger.json");
  const Outcome outcome = run_dlpipe({"train", "--resume", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("nothing was left to train: the run is at step 40"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("memory: "), std::string::npos) << "no step has measured any";
  EXPECT_EQ(text_of(folder / "run/ledger.json"), ledger);
}

TEST(Train, SaysAtItsEndHowManySamplesWereReplaced) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "data", fs::copy_options::recursive);
  std::string bytes = text_of(folder / "data/data.mdb");
  int64_t damaged = 0;
  for (int i = 0; i < 3; ++i) {  // those that the split put there
    const size_t at = bytes.find("star/0000" + std::to_string(i) + ".jpg");
    if (at == std::string::npos) continue;
    bytes[at] = 'S';  // a record's checksum is of its path, too
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  std::ofstream(folder / "data/data.mdb", std::ios::binary) << bytes;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run", {"--data", folder / "data"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string told = std::to_string(damaged) +
                           (damaged == 1 ? " bad sample was" : " bad samples were") +
                           " replaced by others: " + folder / "run/quarantine.txt";
  EXPECT_NE(outcome.out.find(told), std::string::npos) << outcome.out;
}

TEST(Train, ADatasetCutShortUnderItIsExplained) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "data", fs::copy_options::recursive);
  RunningProgram program(train_arguments(
      folder / "run", {"--data", folder / "data", "--epochs", "100000", "--checkpoint-every", "never"}));
  ASSERT_TRUE(wait_for_step(program, folder / "run", 3));
  fs::resize_file(folder / "data/data.mdb", 4096);
  const Outcome outcome = program.wait();
  EXPECT_NE(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("dlpipe verify"), std::string::npos) << outcome.err;
}

// A terminal of 40 columns: a line that wraps can't be overwritten, and each update would leave its rest.
TEST(Train, TheProgressLineFitsTheTerminal) {
  Terminal terminal(40);
  ScratchDirectory folder;
  std::string shown;
  {
    RunningProgram program(train_arguments(folder / "run"), {.err = terminal.device()});
    shown = terminal.wait_for_end();
    EXPECT_EQ(program.wait().exit_code, 0) << shown;
  }
  const size_t begin = shown.find("\repoch ");
  ASSERT_NE(begin, std::string::npos) << shown;
  const size_t end = shown.find("\x1b[K", begin);
  EXPECT_EQ(end - begin - 1, 39u) << shown.substr(begin, 200);
}

TEST(Train, HelpShowsEveryOptionWithItsDefaultAndTheTopics) {
  const Outcome help = run_dlpipe({"train", "--help-all"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text :
       {"default 128", "--batch N", "--schedule", "one_cycle", "--no-decay-vectors", "--help ops"}) {
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

// As on a machine that has no more.
TEST(Train, AnInstructionSetCanBePinned) {
  ScratchDirectory folder;
  const Outcome pinned = run_dlpipe(
      train_arguments(folder / "pinned", {"--isa", "sse41", "--kernels", "rules", "--max-steps", "3"}));
  ASSERT_EQ(pinned.exit_code, 0) << pinned.err;
  ::setenv("DNNL_MAX_CPU_ISA", "SSE41", 1);
  const Outcome lesser =
      run_dlpipe(train_arguments(folder / "lesser", {"--kernels", "rules", "--max-steps", "3"}));
  const Outcome refused = run_dlpipe(train_arguments(folder / "refused", {"--isa", "amx"}));
  ::unsetenv("DNNL_MAX_CPU_ISA");
  ASSERT_EQ(lesser.exit_code, 0) << lesser.err;
  const auto difference = run::compare_runs(folder / "pinned", folder / "lesser");
  ASSERT_TRUE(difference.ok()) << difference.status().message();
  EXPECT_TRUE(difference->receipt.empty());
  const auto receipt = run::read_receipt(folder / "pinned");
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(receipt->isa, "sse41");
  // What the machine lacks; the option counts more than the variable where it has it.
  if (run_dlpipe({"info"}).out.find("engine: amx") == std::string::npos) {
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("less than amx; take "), std::string::npos) << refused.err;
  }
}

}  // namespace dlpipe::test
