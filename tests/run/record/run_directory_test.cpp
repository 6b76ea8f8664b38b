#include "run/record/run_directory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using formats::Json;
using test::ScratchFolder;

TEST(RunDirectory, ANewOneIsTakenAwayAgainWhenNothingWasStarted) {
  ScratchFolder folder;
  { ASSERT_TRUE(RunDirectory::create(folder / "run").ok()); }
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(RunDirectory, FoldersAboveItGoTooAndThoseThatWereThereStay) {
  ScratchFolder folder;
  { ASSERT_TRUE(RunDirectory::create(folder / "runs/today/first/").ok()); }
  EXPECT_FALSE(fs::exists(folder / "runs"));
  fs::create_directories(folder / "empty/run");
  { ASSERT_TRUE(RunDirectory::create(folder / "empty/run").ok()); }
  EXPECT_TRUE(fs::is_empty(folder / "empty/run"));
}

TEST(RunDirectory, IsInUseWhileAProcessHasIt) {
  ScratchFolder folder;
  EXPECT_FALSE(RunDirectory::is_in_use(folder / "run"));
  {
    const auto run = RunDirectory::create(folder / "run");
    ASSERT_TRUE(run.ok());
    EXPECT_TRUE(RunDirectory::is_in_use(folder / "run"));
    throw_if_error((*run)->start_logs(0));
  }
  EXPECT_TRUE(fs::exists(folder / "run/lock"));
  EXPECT_FALSE(RunDirectory::is_in_use(folder / "run"));
}

TEST(RunDirectory, RefusesToOverwriteARun) {
  ScratchFolder folder;
  fs::create_directories(folder / "run");
  std::ofstream(folder / "run/config.toml") << "";
  const auto again = RunDirectory::create(folder / "run");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(again.status().message().find("--resume"), std::string::npos);
}

TEST(RunDirectory, RefusesADatasetAndKeepsTheLinksOfAStartBefore) {
  ScratchFolder folder;
  for (const char* set : {"set", "splits/test", "begun/linked", "begun/linked-val"}) {
    fs::create_directories(folder / set);
    std::ofstream(folder / (std::string(set) + "/data.mdb")) << "";
  }
  for (const std::string& path : {folder / "set", folder / "set/", folder / "splits"}) {
    const Status status = RunDirectory::create(path).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse) << path;
    EXPECT_NE(status.message().find(path + " is a dataset; give another folder, such as --out "),
              std::string::npos)
        << status.message();
    EXPECT_FALSE(fs::exists(path + "/checkpoints"));
  }
  EXPECT_TRUE(RunDirectory::create(folder / "begun").ok());
}

TEST(RunDirectory, AnOfferedNameIsFree) {
  ScratchFolder folder;
  EXPECT_EQ(free_run_name(folder / "run"), folder / "run");
  fs::create_directories(folder / "run");
  fs::create_directories(folder / "run-2");
  EXPECT_EQ(free_run_name(folder / "run"), folder / "run-3");
}

TEST(RunDirectory, RefusesToMixWithWhatIsLeftOfARun) {
  ScratchFolder folder;
  fs::create_directories(folder / "a/checkpoints/step-000000007");
  fs::create_directories(folder / "b");
  fs::create_directories(folder / "c");
  std::ofstream(folder / "b/metrics.jsonl") << "{}\n";
  std::ofstream(folder / "c/quarantine.txt") << "mine\n";
  fs::create_directories(folder / "d");
  std::ofstream(folder / "d/receipt.json") << "mine\n";
  fs::create_directories(folder / "e");
  std::ofstream(folder / "e/kernels.json") << "{}\n";
  fs::create_directories(folder / "f/ledger.json");
  fs::create_directories(folder / "g/checkpoints/best");
  fs::create_directories(folder / "h/checkpoints");
  std::ofstream(folder / "h/checkpoints/last") << "";
  for (const auto& [run, trace] :
       {std::pair(folder / "a", folder / "a/checkpoints/step-000000007"),
        std::pair(folder / "b", folder / "b/metrics.jsonl"),
        std::pair(folder / "c", folder / "c/quarantine.txt"),
        std::pair(folder / "d", folder / "d/receipt.json"),
        std::pair(folder / "e", folder / "e/kernels.json"), std::pair(folder / "f", folder / "f/ledger.json"),
        std::pair(folder / "g", folder / "g/checkpoints/best"),
        std::pair(folder / "h", folder / "h/checkpoints/last")}) {
    const Status status = RunDirectory::create(run).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find(trace + " belongs to another run"), std::string::npos)
        << status.message();
    EXPECT_TRUE(fs::exists(trace));
    const Status resumed = RunDirectory::reopen(run).status();
    EXPECT_EQ(resumed.message().find("the command that started it"), std::string::npos) << resumed.message();
  }
}

TEST(RunDirectory, ALostConfigIsAnsweredWithTheCommandThatPutsItsCopyBack) {
  ScratchFolder folder;
  const std::string run = folder / "a run";
  fs::create_directories(run + "/checkpoints/step-000000007");
  std::ofstream(run + "/checkpoints/config.toml") << "";
  const Status lost = RunDirectory::reopen(run).status();
  EXPECT_EQ(lost.code(), ErrorCode::kNotFound);
  const size_t command = lost.message().find("cp ");
  ASSERT_NE(command, std::string::npos) << lost.message();
  ASSERT_EQ(std::system(lost.message().substr(command).c_str()), 0) << lost.message();
  EXPECT_TRUE(RunDirectory::reopen(run).ok());
}

// As when it was killed between its log and its config.toml.
TEST(RunDirectory, AStartThatWasStoppedBeforeItsFirstStepBeginsAgain) {
  ScratchFolder folder;
  { ASSERT_TRUE((*RunDirectory::create(folder / "run"))->start_logs(0).ok()); }
  ASSERT_TRUE(fs::exists(folder / "run/metrics.jsonl"));
  const Status resumed = RunDirectory::reopen(folder / "run").status();
  EXPECT_NE(resumed.message().find("repeat the command that started it"), std::string::npos)
      << resumed.message();
  EXPECT_TRUE(RunDirectory::create(folder / "run").ok());
}

// What a program forks, as Python's multiprocessing does, has the lock's file open, too.
TEST(RunDirectory, AForkedChildDoesNotKeepItLocked) {
  ScratchFolder folder;
  auto run = *RunDirectory::create(folder / "run");
  ASSERT_TRUE(run->start_logs(0).ok());
  std::ofstream(run->config_file()) << "";
  int until_closed[2];
  ASSERT_EQ(::pipe(until_closed), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(until_closed[1]);
    char byte = 0;
    ::_exit(::read(until_closed[0], &byte, 1) == 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  run.reset();
  const Status again = RunDirectory::reopen(folder / "run").status();
  ::close(until_closed[1]);
  int ended = -1;
  EXPECT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(again.ok()) << again.message();
}

TEST(RunDirectory, OneProcessTrainsInItAtATime) {
  ScratchFolder folder;
  const auto first = RunDirectory::create(folder / "run");
  ASSERT_TRUE(first.ok());
  std::ofstream(folder / "run/config.toml") << "";
  const auto second = RunDirectory::reopen(folder / "run");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(" is training in " + (folder / "run")), std::string::npos)
      << second.status().message();
}

TEST(RunDirectory, LogsAreCutToWhatTheCheckpointKnew) {
  ScratchFolder folder;
  int64_t known = 0;
  {
    auto run = *RunDirectory::create(folder / "run");
    ASSERT_TRUE(run->start_logs(0).ok());
    std::ofstream(run->config_file()) << "";
    ASSERT_TRUE(run->log_line(Json::object({{"step", 1}})).ok());
    std::ofstream(run->quarantine_file()) << "one\n";
    const auto sizes = run->sync_logs();
    ASSERT_TRUE(sizes.ok());
    known = sizes->metrics_bytes;
    EXPECT_EQ(sizes->quarantine_bytes, 4);
    ASSERT_TRUE(run->log_line(Json::object({{"step", 2}})).ok());
    std::ofstream(run->quarantine_file(), std::ios::app) << "two\n";
  }
  auto run = *RunDirectory::reopen(folder / "run");
  ASSERT_TRUE(run->cut_logs(known, 4).ok());
  ASSERT_TRUE(run->start_logs(1).ok());
  ASSERT_TRUE(run->log_line(Json::object({{"step", 2}})).ok());
  EXPECT_EQ(*formats::read_file(run->metrics_file()), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(*formats::read_file(run->quarantine_file()), "one\n");
  EXPECT_EQ(run->cut_logs(1000, 0).code(), ErrorCode::kCorrupt);
}

TEST(RunDirectory, TheLastLossAndValidationAreThoseOfTheLog) {
  ScratchFolder folder;
  EXPECT_FALSE(logged_end(folder / "none").loss || logged_end(folder / "none").validation);
  std::ofstream(folder / "metrics.jsonl") << R"({"step":1,"loss":2.5}
{"step":1,"val_loss":3,"val_samples":8,"val_top1":0.25,"val_map":null}
{"step":2,"val_loss":1.5,"val_samples":9,"val_top1":0.5,"val_map":null}
{"step":2,"loss":0.5}
{"step":3,"los)";
  const LoggedEnd end = logged_end(folder.path());
  EXPECT_EQ(end.loss, 0.5);
  ASSERT_TRUE(end.validation);
  EXPECT_EQ(end.validation->loss, 1.5);
  EXPECT_EQ(end.validation->samples, 9);
  ASSERT_EQ(end.validation->metrics.size(), 2u);
  EXPECT_EQ(end.validation->value("top1"), 0.5);
  EXPECT_TRUE(std::isnan(end.validation->value("map")));
}

TEST(RunDirectory, LogsThatAreLinksAreNeitherCutNorContinued) {
  ScratchFolder folder;
  {
    auto run = value_or_throw(RunDirectory::create(folder / "run"));
    ASSERT_TRUE(run->start_logs(0).ok());
    std::ofstream(run->config_file()) << "";
  }
  std::ofstream(folder / "precious") << "mine";
  for (const char* name : {"metrics.jsonl", "quarantine.txt"}) {
    const std::string log = folder / (std::string("run/") + name);
    fs::remove(log);
    fs::create_symlink(folder / "precious", log);
    auto run = value_or_throw(RunDirectory::reopen(folder / "run"));
    EXPECT_EQ(run->cut_logs(0, 0).code(), ErrorCode::kUnsupported) << name;
    EXPECT_EQ(*formats::read_file(folder / "precious"), "mine");
    fs::remove(log);
  }
}

// As when a process has as many files open as it may.
// Opening a pipe would wait for its other end for ever.
TEST(RunDirectory, APipeInThePlaceOfALogOrTheLockIsRefused) {
  for (const char* name : {"metrics.jsonl", "lock"}) {
    ScratchFolder folder;
    fs::create_directories(folder / "run");
    ASSERT_EQ(::mkfifo((folder / "run/" + name).c_str(), 0600), 0);
    auto run = RunDirectory::create(folder / "run");
    const Status status = run.ok() ? (*run)->start_logs(0) : run.status();
    EXPECT_NE(status.message().find(concat(name, " is a pipe")), std::string::npos) << status.message();
  }
  ScratchFolder folder;
  auto run = value_or_throw(RunDirectory::create(folder / "run"));
  ASSERT_TRUE(run->start_logs(0).ok());
  ASSERT_EQ(::mkfifo(run->quarantine_file().c_str(), 0600), 0);
  EXPECT_NE(run->sync_logs().status().message().find("is a pipe"), std::string::npos);
}

TEST(RunDirectory, AQuarantineThatCannotBeOpenedIsNotAnEmptyOne) {
  ScratchFolder folder;
  auto run = *RunDirectory::create(folder / "run");
  ASSERT_TRUE(run->start_logs(0).ok());
  EXPECT_EQ(run->sync_logs()->quarantine_bytes, 0);
  std::ofstream(run->quarantine_file()) << "one\n";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = run->sync_logs().status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(status.message().find("cannot open " + run->quarantine_file()), std::string::npos)
      << status.message();
}

// TensorBoard forgets older files' points from a START's step on; those of the checkpoint's own step stay.
TEST(RunDirectory, AResumedEventFileKeepsThePointsOfTheCheckpointsStep) {
  ScratchFolder folder;
  {
    auto run = *RunDirectory::create(folder / "run");
    ASSERT_TRUE(run->start_logs(0).ok());
    std::ofstream(run->config_file()) << "";
    ASSERT_TRUE(run->log_scalars(7, {{{"val/top1", 0.5}}}).ok());
  }
  {
    auto run = *RunDirectory::reopen(folder / "run");
    ASSERT_TRUE(run->start_logs(7).ok());
  }
  int64_t start = -1;
  for (const auto& entry : fs::directory_iterator(folder / "run")) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    const auto events = formats::read_events(entry.path());
    ASSERT_TRUE(events.ok());
    for (const formats::EventRecord& event : *events) {
      if (event.session_start) start = std::max(start, event.step);
    }
  }
  EXPECT_EQ(start, 8);
}

TEST(RunDirectory, AFolderWithoutARunIsNamed) {
  ScratchFolder folder;
  const auto run = RunDirectory::reopen(folder.path());
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.status().code(), ErrorCode::kNotFound);
}

}  // namespace dlpipe::run
