// Ctrl-C and SIGTERM where there is nothing to save: one line that says what was kept, and the end by the signal itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

static void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A pipe with a name that holds 4 KiB: who writes more waits until it is read.
class SmallPipe {
 public:
  explicit SmallPipe(const std::string& path) {
    constexpr int kBytes = 4096;
    const bool is_made = ::mkfifo(path.c_str(), 0600) == 0;
    fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_TRUE(is_made && fd_ >= 0 && ::fcntl(fd_, F_SETPIPE_SZ, kBytes) == kBytes) << path;
  }
  ~SmallPipe() { ::close(fd_); }
  SmallPipe(const SmallPipe&) = delete;
  SmallPipe& operator=(const SmallPipe&) = delete;

  /// False when the program ends before it has written any.
  bool wait_for_bytes(RunningProgram& program) const {
    int there = 0;
    for (; there == 0 && !program.ended(); wait_a_little()) ::ioctl(fd_, FIONREAD, &there);
    return there > 0;
  }
  std::string read_all() const {
    std::string all;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(fd_, part.data(), part.size())) > 0;)
      all.append(part.data(), static_cast<size_t>(got));
    return all;
  }

 private:
  int fd_ = -1;
};

TEST(StopSignal, EndsABenchByTheSignalWithOneLine) {
  for (const auto& [signal, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    RunningProgram program({"bench", "pipeline", "--data", trained_run().data.split, "--augment", "hflip",
                            "--seconds", "600", "--threads", "1"});
    ASSERT_TRUE(program.wait_until_it_catches(signal));
    program.send(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.signal, signal) << "what shells answer 130 or 143 for, and end a loop by";
    EXPECT_TRUE(outcome.err.starts_with(std::string("dlpipe: stopped by ") + name)) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(StopSignal, PredictSaysHowManyFilesHaveTheirLine) {
  const ScratchDirectory folder;
  const SmallPipe pipe(folder / "pipe");
  std::vector<std::string> arguments = {"predict", "--ckpt", trained_run().run, "--json", "--batch", "16"};
  arguments.push_back(trained_run().data.jpegs);  // more lines than the pipe holds
  RunningProgram program(arguments, {.out = folder / "pipe"});
  ASSERT_TRUE(pipe.wait_for_bytes(program));
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.signal, SIGINT);
  const std::string out = pipe.read_all();
  constexpr std::string_view kBegin = "dlpipe: stopped by SIGINT after ";
  if (outcome.err.starts_with("dlpipe: stopped by SIGINT; no file")) return;  // before the first was counted
  ASSERT_TRUE(outcome.err.starts_with(kBegin)) << outcome.err;
  const int64_t said = std::stoll(outcome.err.substr(kBegin.size()));
  EXPECT_LE(said, std::count(out.begin(), out.end(), '\n'));
  EXPECT_NE(outcome.err.find("which are printed completely"), std::string::npos) << outcome.err;
}

TEST(StopSignal, SynthLeavesNothingThatLooksWhole) {
  const ScratchDirectory dir;
  RunningProgram program({"synth", dir / "jpegs", "--per-class", "1000000"});
  while (!fs::exists(dir / "jpegs.partial/bar/00000.jpg") && !program.ended()) wait_a_little();
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_NE(outcome.err.find(dir / "jpegs was not made"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(dir / "jpegs"));
  EXPECT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2"}).exit_code, 0) << "begins anew";
}

// The first asks to stop in good order; whoever can't wait for that sends a second one.
TEST(StopSignal, TheSecondOneEndsAtOnce) {
  const ScratchDirectory dir;
  const SmallPipe pipe(dir / "pipe");
  std::ofstream(dir / "err");
  RunningProgram program(
      {"eval", "--ckpt", trained_run().run, trained_run().data.val, "--predictions", dir / "pipe", "--quiet"},
      {.err = dir / "err"});
  ASSERT_TRUE(pipe.wait_for_bytes(program));  // it is stuck, as nobody reads on
  program.send(SIGINT);
  while (file_text(dir / "err").find("repeat the signal to stop at once") == std::string::npos &&
         !program.ended())
    wait_a_little();
  EXPECT_FALSE(program.ended());
  program.send(SIGINT);
  EXPECT_EQ(program.wait().signal, SIGINT);
  EXPECT_NE(file_text(dir / "err").find("dlpipe: stopped by SIGINT\n"), std::string::npos)
      << file_text(dir / "err");
}

TEST(StopSignal, PredictionsAreAFileOnceTheyAreWhole) {
  const ScratchDirectory dir;
  const std::vector<std::string> eval = {
      "eval", "--ckpt", trained_run().run, trained_run().data.val, "--predictions", dir / "p.jsonl"};
  ASSERT_EQ(run_dlpipe(eval).exit_code, 0);
  EXPECT_FALSE(fs::exists(dir / "p.jsonl.partial"));
  const std::string whole = file_text(dir / "p.jsonl");
  EXPECT_NE(whole, "");
  // An evaluation that fails leaves the file of the one before.
  std::vector<std::string> failing = eval;
  failing.insert(failing.end(), {"--val-augment", "resize(8)"});
  EXPECT_NE(run_dlpipe(failing).exit_code, 0);
  EXPECT_EQ(file_text(dir / "p.jsonl"), whole);
  // A pipe is written as it is.
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  std::string piped;
  std::thread reader([&] {
    std::ifstream in(dir / "pipe");
    piped.assign(std::istreambuf_iterator<char>(in), {});
  });
  std::vector<std::string> into_pipe = eval;
  into_pipe.back() = dir / "pipe";
  EXPECT_EQ(run_dlpipe(into_pipe).exit_code, 0);
  reader.join();
  EXPECT_EQ(piped, whole);
}

}  // namespace dlpipe::test
