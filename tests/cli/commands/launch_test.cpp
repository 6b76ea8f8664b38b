// Runs of several processes as a user starts them, with the real mpirun over this machine's memory. Where there is no
// mpirun, or the program was built without MPI, the tests say so and are left out.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <tuple>

#include "base/text.h"
#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/record/receipt.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

bool is_built_without_mpi() {
  return run_dlpipe({"info"}).out.find("built without MPI") != std::string::npos;
}

/// A variable of the environment, for as long as this lives; then what it was before.
class EnvironmentValue {
 public:
  EnvironmentValue(const char* name, const std::string& value) : name_(name) {
    if (const char* former = std::getenv(name)) former_ = former;
    ::setenv(name, value.c_str(), 1);
  }
  ~EnvironmentValue() { former_ ? ::setenv(name_, former_->c_str(), 1) : ::unsetenv(name_); }
  EnvironmentValue(const EnvironmentValue&) = delete;
  EnvironmentValue& operator=(const EnvironmentValue&) = delete;

 private:
  const char* name_;
  std::optional<std::string> former_;
};

class Launch : public testing::Test {
  EnvironmentValue kernels_{"DLPIPE_KERNELS", "rules"};

 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
    if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  }
  /// Seconds. Where no process is lost, a busy machine may keep one from answering for long.
  static constexpr const char* kPatience = "120";
  static Words train(const std::string& out, const Words& more = {}, const char* peer_timeout = kPatience) {
    Words words = train_arguments(out, {"--grains", "8", "--peer-timeout", peer_timeout});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words launched(const Words& launch, const Words& train) {
    Words words = {"launch"};
    words.insert(words.end(), launch.begin(), launch.end());
    words.emplace_back("--");
    words.insert(words.end(), train.begin(), train.end());
    return words;
  }
  static void expect_same_run(const std::string& first, const std::string& second) {
    const auto difference = run::compare_runs(first, second);
    ASSERT_TRUE(difference.ok()) << difference.status().message();
    EXPECT_TRUE(difference->same());
    for (const auto& field : difference->receipt)
      ADD_FAILURE() << field.field << ": " << field.first << ", " << field.second;
  }

  /// The processes that train in `run`, mpirun aside, by the system's own list.
  static std::vector<int> ranks_of(const std::string& run) {
    std::vector<int> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto text = formats::read_file(entry.path().string() + "/cmdline");
      if (!text.ok()) continue;
      std::string line = *text;
      std::replace(line.begin(), line.end(), '\0', ' ');
      const bool trains =
          line.find(run + " ") != std::string::npos && line.find(" train ") != std::string::npos;
      const bool is_rank =
          line.find(" launch ") == std::string::npos && line.find(" -np ") == std::string::npos;
      if (trains && is_rank) found.push_back(std::atoi(entry.path().filename().c_str()));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  /// What mpirun numbered the process, as Open MPI tells it; empty: it was another's.
  static std::string rank_of(int process) {
    constexpr std::string_view kName = "OMPI_COMM_WORLD_RANK=";
    const auto text = formats::read_file("/proc/" + std::to_string(process) + "/environ");
    if (!text.ok()) return "";
    for (const std::string& one : split(*text, '\0'))
      if (one.starts_with(kName)) return one.substr(kName.size());
    return "";
  }
};

TEST_F(Launch, ProcessesOfMpirunComputeTheRunOfOne) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train(folder / "one")).exit_code, 0);
  for (const char* np : {"2", "4"}) {
    const std::string run = folder / np;
    const Outcome outcome = run_dlpipe(launched({"--np", np}, train(run)));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_same_run(folder / "one", run);
    // All validate together.
    EXPECT_NE(outcome.err.find("(80 samples, "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.out.find("collective"), std::string::npos) << outcome.out;  // the ledger's row
    EXPECT_EQ(outcome.out.find("collective", outcome.out.find("unaccounted")),
              std::string::npos);  // printed once
  }
}

TEST_F(Launch, ProcessesThatDifferSayItOnce) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(
      launched({"--np", "2"}, {"train", "--data", "nowhere", "--model", "lenet", "--out", folder / "run"}));
  EXPECT_EQ(outcome.exit_code, 1);
  const size_t first = outcome.err.find("no dataset");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("no dataset", first + 1), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("stopped by"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("--resume"), std::string::npos)
      << outcome.err;  // there is nothing to go on from
  // mpirun ends those that haven't read their words yet
  const Outcome many = run_dlpipe(launched({"--np", "8"}, {"train", "--data", "nowhere", "--out", "x"}));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_NE(many.err.find("no model"), std::string::npos) << many.err;
  EXPECT_EQ(many.err.find("stopped by"), std::string::npos) << many.err;
  const Outcome typo = run_dlpipe(launched({"--np", "2"}, {"train", "--modle", "lenet"}));
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_EQ(typo.err.find("--modle", typo.err.find("--modle") + 1), std::string::npos) << typo.err;
}

TEST_F(Launch, ProcessesTrainOnAFolderOfImages) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "4"}).exit_code, 0);
  const auto words = [&](const std::string& data, const std::string& out) {
    return Words{
        "train",   "--data",   data, "--val",      folder / "images", "--model",  "lenet", "--batch",
        "16",      "--grains", "8",  "--schedule", "constant",        "--epochs", "2",     "--peer-timeout",
        kPatience, "--out",    out};
  };
  ASSERT_EQ(run_dlpipe(words(folder / "images", folder / "one")).exit_code, 0);
  const Outcome outcome = run_dlpipe(launched({"--np", "2"}, words(folder / "images", folder / "two")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_same_run(folder / "one", folder / "two");
  // What the first process says, and the others only know to have happened.
  ASSERT_EQ(std::system(("tar -C " + folder / "images" + " -czf " + folder / "a.tgz" + " .").c_str()), 0);
  const Outcome packed = run_dlpipe(launched({"--np", "2"}, words(folder / "a.tgz", folder / "run")));
  EXPECT_NE(packed.exit_code, 0);
  EXPECT_NE(packed.err.find("unpack it to this disk; `dlpipe ingest "), std::string::npos) << packed.err;
  EXPECT_EQ(packed.err.find("the first process failed"), std::string::npos) << packed.err;
}

TEST_F(Launch, ATermSavesAndExitsThree) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  RunningProgram program(launched({"--np", "2"}, train(run, {"--epochs", "1000", "--checkpoint-every",
                                                             "never", "--val-every", "never"})));
  ASSERT_TRUE(wait_for_step(program, run, 5)) << program.wait().err;
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_TRUE(fs::exists(run + "/checkpoints/last/state.json"));
  EXPECT_EQ(ranks_of(run).size(), 0U);
}

// Four processes with a part of the optimizer each, then two of them with other parts.
TEST_F(Launch, ProcessesShareTheOptimizerOutAndGoOnWithFewer) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train(folder / "one", {"--max-steps", "12"})).exit_code, 0);
  const std::string run = folder / "run";
  RunningProgram program(launched({"--np", "4"}, train(run, {"--max-steps", "12", "--shard-optimizer"})));
  ASSERT_TRUE(wait_for_step(program, run, 2)) << program.wait().err;
  program.send(SIGTERM);
  const Outcome stopped = program.wait();
  EXPECT_TRUE(stopped.exit_code == 3 || stopped.exit_code == 0)
      << stopped.err;  // it may have been done already
  EXPECT_TRUE(fs::exists(run + "/checkpoints/last/optimizer-4-of-4.safetensors"));
  const Outcome outcome = run_dlpipe(launched({"--np", "2"}, {"train", "--resume", run}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_same_run(folder / "one", run);
  EXPECT_NE(outcome.out.find("in each of 2 processes"), std::string::npos) << outcome.out;
}

// Processes with a part of a GPT's weights each, or of its layers, or both, and one that reads their checkpoint. What they exchange
// is larger than MPI sends without a receiver.
TEST_F(Launch, ProcessesSplitTheModelAndOneReadsIt) {
  ScratchDirectory folder;
  std::ofstream text(folder / "verse.txt");
  for (int i = 0; i < 150; ++i) text << "abc de, fg\n";
  text.close();
  ASSERT_EQ(
      run_dlpipe({"ingest", folder / "verse.txt", folder / "data", "--length", "10", "--split", "0.9,0.1"})
          .exit_code,
      0);
  const auto words = [&](const std::string& out, const Words& more) {
    Words all = {"train",
                 "--data",
                 folder / "data",
                 "--model",
                 "gpt_char_tiny",
                 "--optimizer",
                 "adamw",
                 "--lr",
                 "0.003",
                 "--batch",
                 "16",
                 "--grains",
                 "4",
                 "--schedule",
                 "constant",
                 "--epochs",
                 "2",
                 "--out",
                 out,
                 "--peer-timeout",
                 kPatience};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto loss_of = [&](const std::string& run) {
    const Outcome eval = run_dlpipe({"eval", "--ckpt", run, "--data", folder / "data/val", "--json"});
    EXPECT_EQ(eval.exit_code, 0) << eval.err;
    return (*formats::Json::parse(eval.out))["loss"].as_double();
  };
  ASSERT_EQ(run_dlpipe(words(folder / "one", {})).exit_code, 0);
  const double loss = loss_of(folder / "one");
  const std::string run = folder / "both";
  for (const auto& [np, out, options] :
       {std::tuple{"2", folder / "parts", Words{"--tensor-parallel", "2"}},
        std::tuple{"2", folder / "stages", Words{"--pipeline-parallel", "2"}},
        std::tuple{"4", run, Words{"--tensor-parallel", "2", "--pipeline-parallel", "2"}}}) {
    const Outcome outcome = run_dlpipe(launched({"--np", np}, words(out, options)));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NEAR(loss_of(out), loss, 1e-3) << out;  // sums in another order, over some dozens of steps
  }
  EXPECT_NE(file_text(run + "/receipt.json").find("\"pipeline_parallel\": 2"), std::string::npos)
      << file_text(run + "/receipt.json");
  const Outcome longer = run_dlpipe({"train", "--resume", run, "--epochs", "3"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.err.find("--tensor-parallel and --pipeline-parallel"), std::string::npos) << longer.err;
  const Outcome refused =
      run_dlpipe(launched({"--np", "2"}, train(folder / "no", {"--tensor-parallel", "2"})));
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("--tensor-parallel 2 of lenet: none of its layers can be split"),
            std::string::npos)
      << refused.err;
}

// A process that is stopped answers nobody: the others say which, and end.
TEST_F(Launch, AProcessThatHangsIsNamed) {
  ScratchDirectory folder;
  const std::string run = folder / "run";
  RunningProgram program(launched(
      {"--np", "4"},
      train(run, {"--epochs", "1000", "--checkpoint-every", "2steps", "--val-every", "never"}, "5")));
  ASSERT_TRUE(wait_for_step(program, run, 5)) << program.wait().err;
  const std::vector<int> ranks = ranks_of(run);
  ASSERT_EQ(ranks.size(), 4U);
  const std::string stopped = rank_of(ranks.back());
  ::kill(ranks.back(), SIGSTOP);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("rank " + stopped + " has not responded for 5.0 s"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find(" of 4 waited for "), std::string::npos) << outcome.err;
  EXPECT_TRUE(fs::exists(run + "/checkpoints/last/state.json"));
}

// Killed at random moments, with fewer processes each time, the run ends with the weights of one that was left alone.
// DLPIPE_KILL_ROUNDS kills in more runs, to look for rare moments by hand.
TEST_F(Launch, AnElasticRunLosesProcessesAndNoBits) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train(folder / "one", {"--epochs", "12"})).exit_code, 0);
  const char* const more = std::getenv("DLPIPE_KILL_ROUNDS");
  const int runs = more != nullptr ? std::atoi(more) : 1;
  RandomStream random(11, 0);
  int killed = 0;
  for (int round = 0; round < runs; ++round) {
    const std::string run = folder / ("run" + std::to_string(round));
    RunningProgram program(
        launched({"--np", "4", "--elastic"}, train(run, {"--epochs", "12", "--checkpoint-every", "3steps"})));
    for (const size_t world : {4, 2}) {
      ASSERT_TRUE(wait_for_step(program, run, world == 4 ? 1 : 2));
      std::vector<int> ranks;
      while (!program.ended() && ranks.size() != world) ranks = ranks_of(run);
      std::this_thread::sleep_for(std::chrono::milliseconds(random.below(world == 4 ? 300 : 1500)));
      if (program.ended()) break;
      ::kill(ranks[random.below(static_cast<uint32_t>(world))], SIGKILL);
      ++killed;
      while (!program.ended() && ranks_of(run) == ranks)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_same_run(folder / "one", run);
  }
  EXPECT_GE(killed, runs);
}

TEST(LaunchMisuse, SaysWhatToGive) {
  const auto refused = [](const Words& words, const std::string& part) {
    const Outcome outcome = run_dlpipe(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  refused({"launch", "--np", "3", "--", "train", "--out", "x"}, "--np 3; use 1, 2, 4, 8");
  refused({"launch", "-np", "3", "--", "train", "--out", "x"}, "--np 3; use 1, 2, 4, 8");
  refused({"launch", "--np", "3", "train", "--data", "d", "--out", "x"}, "--np 3; use 1, 2, 4, 8");
  refused({"--quiet", "launch", "--np", "3", "train", "--data", "d", "--out", "x"}, "--np 3; use 1, 2, 4, 8");
  refused({"launch", "--np", "3", "--", "--color", "never", "--quiet", "train", "--out", "x"},
          "--np 3; use 1, 2, 4, 8");
  refused({"launch", "--", "--quiet", "eval", "x"}, "give the command after --");
  refused({"launch", "--np", "2", "--", "eval", "x"}, "give the command after --");
  refused({"launch", "--np", "2", "--elastic", "--", "train"}, "give --out RUN");
  refused({"launch", "train"}, "there is no run directory; give --out RUN");
  refused({"launch", "--np", "2", "--min-np", "4", "--", "train", "--out", "x"}, "--min-np 4; use 1 to 2");
}

TEST(LaunchMisuse, TheRunIsKnownByAllNamesOfOut) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  fs::create_directories(run + "/checkpoints/last");
  const auto goes_on_with_run = [&](const Words& words) {
    Words launch = {"launch", "--np", "1", "--mpirun", "false", "--", "train", "--out", folder / "other"};
    launch.insert(launch.end(), words.begin(), words.end());
    const Outcome outcome = run_dlpipe(launch);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find(concat("-- train --resume ", run, "\n")), std::string::npos) << outcome.err;
  };
  goes_on_with_run({"--out", run});
  goes_on_with_run({"--output", run});
  goes_on_with_run({"--output=" + run});
  goes_on_with_run({"-o", run});
  goes_on_with_run({"-o" + run});
  const Outcome only = run_dlpipe({"launch", "--np", "1", "--mpirun", "false", "--", "train", "-o", run});
  EXPECT_NE(only.err.find("(mpirun's exit code is 1)"), std::string::npos) << only.err;
}

/// A program in mpirun's place that notes its words and what it is told in the environment, does `more` and fails.
class FakeMpirun {
 public:
  explicit FakeMpirun(const std::string& more = "") {
    std::ofstream(file()) << "#!/bin/sh\necho \"$@\" >> " << folder_ / "words"
                          << "\nenv | grep keepalive_time >> " << folder_ / "environment\n"
                          << more << "\nexit 1\n";
    fs::permissions(file(), fs::perms::owner_all);
  }
  std::string file() const { return folder_ / "mpirun"; }
  /// The command line of each attempt.
  std::vector<std::string> attempts() const {
    std::vector<std::string> lines = split(file_text(folder_ / "words"), '\n');
    std::erase(lines, "");
    return lines;
  }
  std::string environment() const { return file_text(folder_ / "environment"); }
  Outcome launch(const Words& options, const Words& train) const {
    Words words = {"launch", "--mpirun", file()};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "train"});
    words.insert(words.end(), train.begin(), train.end());
    return run_dlpipe(words);
  }

 private:
  ScratchDirectory folder_;
};

TEST(LaunchMisuse, ProcessesAreBoundToNoCoreUnlessTheUserBindsThem) {
  if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  const FakeMpirun mpirun;
  EXPECT_EQ(mpirun.launch({"--np", "2"}, {"--out", "x"}).exit_code, 1);
  mpirun.launch({"--np", "2", "--mpirun-args", "--host a,b"}, {"--out", "x"});
  mpirun.launch({"--np", "2", "--mpirun-args", "--bind-to socket"}, {"--out", "x"});
  const std::vector<std::string> attempts = mpirun.attempts();
  ASSERT_EQ(attempts.size(), 3U);
  EXPECT_NE(attempts[0].find("--oversubscribe --bind-to none "), std::string::npos) << attempts[0];
  EXPECT_NE(attempts[1].find(" --bind-to none --host a,b "), std::string::npos) << attempts[1];
  EXPECT_EQ(attempts[1].find("--oversubscribe"), std::string::npos) << attempts[1];
  EXPECT_EQ(attempts[2].find("none"), std::string::npos) << attempts[2];
}

TEST(LaunchMisuse, AnElasticRunGoesOnWithItsOwnRunAlone) {
  if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  const FakeMpirun fails;
  fs::create_directories(run);
  std::ofstream(run + "/config.toml") << "model = \"lenet\"\n";  // another run's
  EXPECT_EQ(fails.launch({"--np", "2", "--elastic"}, {"--data", "d", "--out", run}).exit_code, 1);
  ASSERT_EQ(fails.attempts().size(), 2U);
  EXPECT_EQ(fails.attempts()[1].find("--resume"), std::string::npos) << fails.attempts()[1];
  fs::remove_all(run);
  const FakeMpirun begins(concat("mkdir -p ", run, "; touch ", run, "/config.toml"));
  EXPECT_EQ(begins.launch({"--np", "2", "--elastic"}, {"--data", "d", "--out", run}).exit_code, 1);
  ASSERT_EQ(begins.attempts().size(), 2U);
  EXPECT_NE(begins.attempts()[1].find(concat("train --resume ", run)), std::string::npos)
      << begins.attempts()[1];
}

TEST(LaunchMisuse, WhatTheConfigFileHasCounts) {
  if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  const FakeMpirun mpirun;
  const std::string config = folder / "c.toml";
  std::ofstream(config) << "out = \"" << run << "\"\npeer-timeout = 600\n";
  fs::create_directories(run + "/checkpoints/last");
  const Outcome outcome = mpirun.launch({"--np", "1"}, {"--config", config});
  EXPECT_NE(outcome.err.find(concat("-- train --resume ", run, "\n")), std::string::npos) << outcome.err;
  mpirun.launch({"--np", "1"}, {"--config", config, "--peer-timeout", "60"});
  fs::copy(config, run + "/config.toml");
  mpirun.launch({"--np", "1"}, {"--resume", run});
  EXPECT_EQ(mpirun.environment(),
            "OMPI_MCA_oob_tcp_keepalive_time=150\n"
            "OMPI_MCA_oob_tcp_keepalive_time=15\n"
            "OMPI_MCA_oob_tcp_keepalive_time=150\n");
  const Outcome typo = mpirun.launch({"--np", "1"}, {"--config", folder / "no.toml"});
  EXPECT_NE(typo.err.find("no.toml"), std::string::npos) << typo.err;
  EXPECT_EQ(mpirun.attempts().size(), 3U);
}

TEST(LaunchMisuse, ABuildWithoutMpiIsNamed) {
  if (!is_built_without_mpi()) GTEST_SKIP() << "built with MPI";
  const Outcome outcome = run_dlpipe({"launch", "--np", "2", "--", "train", "--out", "x"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("[launch] this dlpipe was built without MPI"), std::string::npos) << outcome.err;
}

TEST(LaunchMisuse, AnEndIsNoticedWhereNobodyWantedSigchld) {
  if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  const ScratchDirectory folder;
  const std::string launch = concat("trap \"\" CHLD; exec ", program_path(),
                                    " launch --np 2 --mpirun false -- train --out ", folder / "run");
  const int status = std::system(concat("timeout 60 sh -c '", launch, "' 2> ", folder / "err").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(file_text(folder / "err").find("(mpirun's exit code is 1)"), std::string::npos);
}

TEST(LaunchMisuse, AMissingMpirunIsNamed) {
  if (is_built_without_mpi()) GTEST_SKIP() << "built without MPI";
  const Outcome outcome =
      run_dlpipe({"launch", "--np", "2", "--mpirun", "no-such-mpirun", "--", "train", "--out", "x"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("there is no program no-such-mpirun; install Open MPI"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace dlpipe::test
