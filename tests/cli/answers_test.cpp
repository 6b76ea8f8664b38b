// What a command was asked for goes to stdout, so that a pager, a filter and a file get it; nothing else goes
// there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/text.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace {

struct Answer {
  std::vector<std::string> command;
  std::string part;  // of the answer
};

std::vector<Answer> answers() {
  const std::string& run = trained_run().run;
  const std::string& data = trained_run().data.val;
  return {{{"info"}, "libraries"},
          {{"info", "--model", "lenet", "--size", "28"}, "Conv2d"},
          {{"inspect", data}, "longer side"},
          {{"verify", data}, "all good"},
          {{"doctor", run}, "data"},
          {{"diff", run, run}, "the same run"},
          {{"eval", "--ckpt", run, "--data", data}, "top1"},
          {{"bench", "storage", "--data", data, "--seconds", "0.1"}, "record, in order"},
          {{"bench", "decode", "--data", data, "--seconds", "0.1"}, "the crop's part"},
          {{"bench", "pipeline", "--data", data, "--seconds", "0.1", "--batch", "8"}, "samples/s alone"},
          {{"bench", "h2d", "--device", "cpu", "--seconds", "0.1"}, "pinned to device"}};
}

std::string typed(const std::vector<std::string>& command) {
  std::string text = "dlpipe";
  for (const std::string& word : command) text += " " + word;
  return text;
}

}  // namespace

TEST(Answers, GoToStdoutAlone) {
  for (const Answer& answer : answers()) {
    const Outcome outcome = run_dlpipe(answer.command);
    EXPECT_EQ(outcome.exit_code, 0) << typed(answer.command) << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find(answer.part), std::string::npos) << typed(answer.command) << "\n"
                                                                << outcome.out;
    EXPECT_EQ(outcome.err.find(answer.part), std::string::npos) << typed(answer.command) << "\n"
                                                                << outcome.err;
    EXPECT_EQ(outcome.out.back(), '\n') << typed(answer.command);
  }
}

TEST(Answers, SharesOfSamplesAreInPercentAndTheLossIsNot) {
  const std::vector<std::string> command = {"eval", "--ckpt", trained_run().run, "--data",
                                            trained_run().data.val};
  std::vector<std::string> for_programs = command;
  for_programs.emplace_back("--json");
  const auto json = value_or_throw(formats::Json::parse(run_dlpipe(for_programs).out));
  const std::string shown = run_dlpipe(command).out;
  for (const std::string& part : {fixed(100 * json["metrics"]["top1"].as_double(), 2) + " %",
                                  fixed(100 * json["metrics"]["top5"].as_double(), 2) + " %",
                                  fixed(json["loss"].as_double(), 4) + "\n"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << "\n" << shown;
}

// Tables whose columns are no names from data, and sentences. What names a path may be longer.
TEST(Answers, FitATerminalOf80Columns) {
  std::vector<Answer> all = answers();
  const std::string& run = trained_run().run;
  const std::string& data = trained_run().data.val;
  all.insert(all.end(),
             {{{"info", "resnet50"}, "layer4.2.conv3"},
              {{"eval", "--ckpt", run, "--data", data, "--report"}, "predicted"},
              {{"info", run}, "parameters"},
              {{"bench", "train", "--model", "lenet", "--batch", "4", "--seconds", "0.1"}, "median step"}});
  const std::string scratch = std::filesystem::temp_directory_path().string();
  ::unsetenv("COLUMNS");
  for (const Answer& answer : all) {
    Terminal terminal(80);
    RunningProgram program(answer.command, {.out = terminal.device()});
    const std::string shown = terminal.wait_for_end();
    EXPECT_EQ(program.wait().exit_code, 0) << typed(answer.command);
    EXPECT_NE(shown.find(answer.part), std::string::npos) << typed(answer.command) << "\n" << shown;
    std::istringstream lines(shown);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      // wherever the tests' files lie
      if (const size_t at = line.find(scratch); at != std::string::npos)
        line.replace(at, scratch.size(), "/tmp");
      const std::vector<std::string> words = split(line, ' ');
      const auto is_name = [](const std::string& word) { return word.size() > 40; };  // or a chain's numbers
      if (std::ranges::any_of(words, is_name)) continue;
      EXPECT_LE(line.size(), 80U) << typed(answer.command) << "\n" << line;
    }
  }
}

/// The lines that a terminal shows of what was written to it.
std::vector<std::string> lines_shown(const std::string& written) {
  std::vector<std::string> lines;
  for (std::string line : split(written, '\n')) {
    while (line.ends_with('\r')) line.pop_back();
    line.erase(0, line.rfind('\r') + 1);  // what a progress line was drawn over
    for (size_t at = 0; (at = line.find("\x1b[K")) != std::string::npos;) line.erase(at, 3);
    lines.push_back(line);
  }
  return lines;
}

// A training with notes of its own, a warning and an error: nothing is broken within a word.
TEST(Notes, FitATerminalOf80Columns) {
  ScratchDirectory folder;
  ::unsetenv("COLUMNS");
  const std::vector<std::string> resumed = {"train", "--resume", folder / "run",        "--color",
                                            "never", "--data",   trained_run().data.val};
  const std::vector<std::string> words =
      train_arguments(folder / "run", {"--data", trained_run().data.train, "--epochs", "1", "--batch", "15",
                                       "--schedule", "constant", "--tta", "flip"});
  for (const std::vector<std::string>& command : {words, resumed}) {
    Terminal terminal(80);
    RunningProgram program(command, {.err = terminal.device()});
    const std::vector<std::string> lines = lines_shown(terminal.wait_for_end());
    program.wait();
    size_t broken = 0;
    for (const std::string& line : lines) {
      const std::vector<std::string> parts = split(line, ' ');
      const auto is_name = [](const std::string& word) { return word.size() > 40; };
      const bool has_name = std::ranges::any_of(parts, is_name);
      EXPECT_TRUE(has_name || line.size() <= 80U) << typed(command) << "\n" << line;
      broken += line.starts_with("  ") ? 1 : 0;
    }
    EXPECT_GT(broken, 0U) << typed(command);
  }
  // The words are those that a file gets, and a file gets its sentences whole.
  const std::string whole = run_dlpipe(resumed).err;
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 1) << whole;
  Terminal terminal(60);
  RunningProgram program(resumed, {.err = terminal.device()});
  std::string shown;
  for (const std::string& line : lines_shown(terminal.wait_for_end())) shown += line + " ";
  program.wait();
  const auto without_blanks = [](std::string text) {
    std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
    return text;
  };
  EXPECT_NE(without_blanks(shown).find(without_blanks(whole)), std::string::npos) << shown;
}

// A command is for copying: a terminal breaks a line that is too long for it, and gives it back whole.
TEST(Notes, CommandsStayInOneLine) {
  ScratchDirectory folder;
  ASSERT_EQ(
      run_dlpipe(train_arguments(folder / "run of a name that is long enough", {"--epochs", "1"})).exit_code,
      0);
  const std::string run = folder / "run of a name that is long enough";
  Terminal terminal(80);
  RunningProgram program({"train", "--resume", run, "--epochs", "3", "--color", "never"},
                         {.err = terminal.device()});
  const std::vector<std::string> lines = lines_shown(terminal.wait_for_end());
  program.wait();
  const bool is_whole = std::ranges::any_of(lines, [&](const std::string& line) {
    return line.find("dlpipe train --config '") != std::string::npos &&
           line.find("--epochs 3") != std::string::npos;
  });
  EXPECT_TRUE(is_whole) << testing::PrintToString(lines);
}

// As mpirun's, which hands on what its processes print.
TEST(Answers, StayWholeOnATerminalThatSaysNoWidth) {
  ::unsetenv("COLUMNS");
  const std::vector<std::string> command = {"info", trained_run().run};
  const std::string whole = run_dlpipe(command).out;
  std::istringstream lines(whole);
  bool has_long_line = false;
  for (std::string line; std::getline(lines, line);) has_long_line |= line.size() > 80;
  ASSERT_TRUE(has_long_line) << whole;
  Terminal terminal(0);
  RunningProgram program(command, {.out = terminal.device()});
  std::string shown = terminal.wait_for_end();
  EXPECT_EQ(program.wait().exit_code, 0);
  std::erase(shown, '\r');
  EXPECT_EQ(shown, whole);
}

TEST(Answers, ThatCannotBeWrittenAreFailures) {
  std::vector<Answer> all = answers();
  all.insert(all.end(), {{{"--version"}, ""}, {{"--help"}, ""}, {{"help", "ops"}, ""}});
  for (const Answer& answer : all) {
    for (const Streams& streams : {Streams{.out = "/dev/full"}, Streams{.has_out = false}}) {
      const Outcome outcome = run_dlpipe(answer.command, streams);
      EXPECT_EQ(outcome.exit_code, 1) << typed(answer.command);
      EXPECT_NE(outcome.err.find("cannot write to stdout"), std::string::npos)
          << typed(answer.command) << "\n"
          << outcome.err;
    }
  }
}

// `dlpipe inspect DATA | head -1`: whoever reads has gone before the answer came.
TEST(Answers, ThatNobodyReadsToTheEndAreNoFailures) {
  const ScratchDirectory folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Answer& answer : answers()) {
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader, 0);
    RunningProgram program(answer.command, {.out = pipe});
    ::close(reader);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 0) << typed(answer.command) << "\n" << outcome.err;
    EXPECT_EQ(outcome.signal, 0) << typed(answer.command);
  }
}

}  // namespace dlpipe::test
