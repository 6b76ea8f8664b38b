// The program from outside: help, version, exit codes, names of options. tests/errors has the messages.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(Program, VersionGoesToStdoutAndExitsZero) {
  const Outcome outcome = run_dlpipe({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.rfind("dlpipe ", 0), 0u) << outcome.out;
  EXPECT_NE(run_dlpipe({"--help"}).out.find("\nOptions:\n  --version "), std::string::npos);
  EXPECT_NE(run_dlpipe({"help", "--man"}).out.find("\n.B \\-\\-version\n"), std::string::npos);
}

TEST(Program, HelpListsCommandsAndExitCodes) {
  const Outcome outcome = run_dlpipe({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("info"), std::string::npos);
  EXPECT_NE(outcome.out.find("3 stopped by"), std::string::npos);
  EXPECT_NE(outcome.out.find("130 and 143"), std::string::npos) << outcome.out;
}

// What the terminal shows of `dlpipe ARGUMENTS...` on stderr.
static std::string shown_error(const std::vector<std::string>& arguments) {
  Terminal terminal;
  RunningProgram program(arguments, {.err = terminal.device()});
  const std::string shown = terminal.wait_for_end();
  program.wait();
  return shown;
}

TEST(Program, ColoursAreForTerminalsThatTakeThem) {
  const char* const term = std::getenv("TERM");
  const std::string former = term == nullptr ? "" : term;
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  const std::vector<std::string> wrong = {"inspect", "/nonexistent"};
  EXPECT_NE(shown_error(wrong).find("\x1b[31m"), std::string::npos);
  EXPECT_EQ(shown_error({"inspect", "/nonexistent", "--color", "never"}).find('\x1b'), std::string::npos);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(shown_error(wrong).find('\x1b'), std::string::npos);
  EXPECT_NE(shown_error({"inspect", "/nonexistent", "--color", "always"}).find("\x1b[31m"),
            std::string::npos);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(shown_error(wrong).find('\x1b'), std::string::npos);
  EXPECT_EQ(run_dlpipe(wrong).err.find('\x1b'), std::string::npos) << "a file is no terminal";
  former.empty() ? ::unsetenv("TERM") : ::setenv("TERM", former.c_str(), 1);
}

TEST(Program, QuietLeavesTheTerminalEmpty) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  EXPECT_NE(shown_error({"ingest", dir / "jpegs", dir / "a"}).find("] 20/20"), std::string::npos);
  EXPECT_EQ(shown_error({"ingest", dir / "jpegs", dir / "b", "--quiet"}), "");
}

// Commands are recalled and added to: which value counts is said before the work begins.
TEST(Program, AnOptionThatIsGivenAgainIsNoted) {
  std::vector<std::string> words = {"train",     "/nonexistent",   "--batch",   "64",    "--batch", "16",
                                    "--augment", "pad_crop(32,4)", "--augment", "hflip", "--lr",    "0.1"};
  const std::string said = run_dlpipe(words).err;
  EXPECT_NE(said.find("[train] --batch is given 2 times; the last one, 16, counts"), std::string::npos)
      << said;
  EXPECT_NE(said.find("[train] --augment is given 2 times; the last one, hflip, counts"), std::string::npos)
      << said;
  EXPECT_EQ(said.find("--lr is given"), std::string::npos) << said;
  EXPECT_NE(run_dlpipe({"train", "/nonexistent", "--limit", "9", "--limit", "-1"})
                .err.find("the last one, -1, counts"),
            std::string::npos);
  words.emplace_back("--quiet");
  EXPECT_EQ(run_dlpipe(words).err.find("is given"), std::string::npos);
  // Of every command.
  for (const char* const option : {"--threads", "--batch"}) {
    const Outcome outcome =
        run_dlpipe({"eval", "--ckpt", "/nonexistent", "/nonexistent", option, "2", option, "3"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(
        outcome.err.find(std::string("[eval] ") + option + " is given 2 times; the last one, 3, counts"),
        std::string::npos)
        << outcome.err;
  }
}

TEST(Program, OtherNamesOfAnOptionAreAccepted) {
  // Each is parsed: what fails is the file that is not there.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", "/nonexistent", "--jobs", "1"},
        {"verify", "/nonexistent", "--workers", "1"},
        {"verify", "--data", "/nonexistent"},
        {"eval", "--ckpt", "/nonexistent", "/nonexistent", "--batch-size", "3"},
        {"eval", "--checkpoint", "/nonexistent", "--data", "/nonexistent"},
        {"run", "/nonexistent", "--input", "/nonexistent", "-o", "/nonexistent/out"},
        {"compile", "--ckpt", "/nonexistent", "-o", "/nonexistent/out"},
        {"compile", "--ckpt", "/nonexistent", "--output", "/nonexistent/out"},
        {"train", "/nonexistent", "--arch", "lenet", "--learning-rate", "0.1", "--wd", "0", "--batch-size",
         "4", "--workers", "1", "--output", "/nonexistent/out"}}) {
    const Outcome outcome = run_dlpipe(command);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("/nonexistent"), std::string::npos) << outcome.err;
  }
  const std::string help = run_dlpipe({"train", "--help-all"}).out;
  EXPECT_EQ(help.find("\n  --learning-rate"), std::string::npos) << "one name has a line";
  EXPECT_NE(help.find("--learning-rate"), std::string::npos) << "which names the other one";
}

TEST(Program, AWordThatBeginsAsAnOptionCanBeAValue) {
  const Outcome meant = run_dlpipe({"inspect", "--data=--json"});
  EXPECT_EQ(meant.exit_code, 1);
  EXPECT_NE(meant.err.find("no dataset --json"), std::string::npos) << meant.err;
  const Outcome word = run_dlpipe({"inspect", "--", "--data=--json"});
  EXPECT_NE(word.err.find("no dataset --data=--json"), std::string::npos) << word.err;
}

// Two letters of four are another word: --init is no likelier than any other option.
TEST(Program, ShortOptionsAreNotTakenForOthers) {
  for (const char* command : {"predict", "train", "ingest"}) {
    const std::string said = run_dlpipe({command, "a", "--int8"}).err;
    EXPECT_NE(said.find("there is no option '--int8'"), std::string::npos) << said;
    EXPECT_EQ(said.find("did you mean"), std::string::npos) << said;
  }
}

TEST(Program, AWordInBracketsIsOneWord) {
  const Outcome outcome = run_dlpipe({"help", "[train,eval]"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("there is no help on '[train,eval]'"), std::string::npos) << outcome.err;
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  std::filesystem::rename("jpegs", "[a,b]");
  const Outcome whole = run_dlpipe({"ingest", "[a,b]", "[whole]"});
  const Outcome part = run_dlpipe({"ingest", "[a,b]", "[part]", "--part", "1/1"});
  const Outcome joined = run_dlpipe({"join", "[joined]", "[part]"});
  std::filesystem::current_path(before);
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(joined.exit_code, 0) << joined.err;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"[a,b]", "[whole]", "[part]", "[joined]"}));
}

// An unset variable.
TEST(Program, AnEmptyNameOfAFileIsNoLeftOutOne) {
  const ScratchDirectory dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  std::ofstream(".partial") << "mine";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"preview", "d", "--augment", "hflip", "--out", ""},
        {"train", "d", "--model", "mlp", "--out", "r", "--resume", ""},
        {"train", "d", "--model", "mlp", "--out", "r", "--config", ""},
        {"eval", "--ckpt", "r", "d", "--predictions", ""},
        {"eval", "--ckpt=", "d"},
        {"predict", "--ckpt", "", "a.jpg"},
        {"compile", "--ckpt", "r", "--out", ""},
        {"run", "m.dlg", "--input", "x.npy", "--out", ""}}) {
    const Outcome outcome = run_dlpipe(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("'' is empty; give "), std::string::npos) << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists(".partial"));
  std::filesystem::current_path(before);
}

/// stderr of a command that logs a warning, with $DLPIPE_LOG `level`.
static std::string warned(const char* level) {
  const char* const variable = std::getenv("DLPIPE_LOG");
  const std::string former = variable == nullptr ? "" : variable;
  ::setenv("DLPIPE_LOG", level, 1);
  const std::string said = run_dlpipe({"bench", "train", "--model", "mlp", "--batch", "2", "--size", "8",
                                       "--seconds", "0.1", "--tf32"})
                               .err;
  former.empty() ? ::unsetenv("DLPIPE_LOG") : ::setenv("DLPIPE_LOG", former.c_str(), 1);
  return said;
}

TEST(Program, ALevelThatIsNoneSilencesNoWarning) {
  const std::string warning = "warning: --tf32 has no effect on cpu";
  for (const char* const level : {"", "warning", "WARNING", "Info"})
    EXPECT_TRUE(warned(level).starts_with(warning)) << level << "\n" << warned(level);
  EXPECT_EQ(warned("error"), "");
  const std::string said = warned("warnings");
  EXPECT_TRUE(
      said.starts_with("dlpipe: DLPIPE_LOG is 'warnings', which is not a level; use debug, info, "
                       "warning or error\n" +
                       warning))
      << said;
}

TEST(Program, NumbersThatNoIntegerHoldsAreRefused) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  for (const char* option : {"--limit", "--seed"}) {
    for (const char* number : {"99999999999999999999", "-99999999999999999999"}) {
      const Outcome outcome = run_dlpipe({"ingest", dir / "jpegs", dir / "data", option, number});
      EXPECT_EQ(outcome.exit_code, 2) << option;
      EXPECT_NE(outcome.err.find(std::string("'") + number + "' is not a whole number from "),
                std::string::npos)
          << outcome.err;
    }
  }
}

TEST(Program, WholeNumbersAreDecimal) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  const Outcome stored = run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--limit", "012", "--json"});
  ASSERT_EQ(stored.exit_code, 0) << stored.err;
  EXPECT_NE(stored.out.find("\"samples\":12,"), std::string::npos) << stored.out;
  EXPECT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "more", "--limit", "08"}).exit_code, 0);
  for (const char* option : {"--limit", "--seed"}) {
    for (const char* number : {"0x10", "1'000", "many", ""}) {
      const Outcome outcome = run_dlpipe({"ingest", dir / "jpegs", dir / "none", option, number});
      EXPECT_EQ(outcome.exit_code, 2) << option << " " << number;
      EXPECT_NE(outcome.err.find(std::string(option) + " '" + number + "' is not a whole number"),
                std::string::npos)
          << outcome.err;
    }
  }
}

TEST(Program, NoCommandIsMisuseAndShowsHelp) {
  const Outcome outcome = run_dlpipe({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("Commands:"), std::string::npos);
}

TEST(Program, AFileThatGrowsPastItsLimitIsAnErrorAndNoSignal) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "images", "--per-class", "20"}).exit_code, 0);
  Outcome outcome;
  {
    const Limited files(RLIMIT_FSIZE, 30'000);
    outcome = run_dlpipe({"ingest", dir / "images", dir / "data"});
  }
  EXPECT_EQ(outcome.exit_code, 1) << outcome.signal;
  EXPECT_NE(outcome.err.find("ulimit -f"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_dlpipe({"ingest", dir / "images", dir / "data"}).exit_code, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
TEST(Program, WhereThereIsNoRoomForAllThreadsFewerDoTheWork) {
  const ScratchDirectory dir;
  const Limited memory(RLIMIT_AS, rlim_t{2} << 30);
  const Outcome drawn =
      run_dlpipe({"synth", dir / "images", "--per-class", "20", "--size", "16", "--jobs", "1000"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.signal << drawn.err;
  EXPECT_NE(drawn.err.find("of 1000 threads could be started"), std::string::npos) << drawn.err;
  const Outcome ingested =
      run_dlpipe({"ingest", dir / "images", dir / "data", "--jobs", "1000", "--map-size", "300MB"});
  EXPECT_EQ(ingested.exit_code, 0) << ingested.signal << ingested.err;
  EXPECT_NE(ingested.err.find("of 1000 threads could be started"), std::string::npos) << ingested.err;
  // oneTBB's threads can't be told to be fewer once it has begun.
  const Outcome trained = run_dlpipe(
      {"train", "--data", dir / "data", "--model", "mlp", "--threads", "1000", "--out", dir / "run"});
  EXPECT_EQ(trained.exit_code, 1) << trained.signal << trained.err;
  EXPECT_NE(trained.err.find("ulimit -v"), std::string::npos) << trained.err;
}
#endif

TEST(Program, WhatStdoutDoesNotTakeIsAFailure) {
  const Outcome outcome = run_dlpipe({"info", "--json"}, {.out = "/dev/full"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("cannot write to stdout: No space left"), std::string::npos) << outcome.err;
}

TEST(Program, AClosedStdoutIsAFailureAndNoFileTakesItsPlace) {
  const Outcome outcome = run_dlpipe({"info", "--json"}, {.has_out = false});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("cannot write to stdout: Bad file descriptor"), std::string::npos)
      << outcome.err;
}

}  // namespace dlpipe::test
