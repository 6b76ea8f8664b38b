// The program's outer face: help, version, exit codes, typing errors.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(Program, VersionGoesToStdoutAndExitsZero) {
  const Outcome outcome = run_dlpipe({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.rfind("dlpipe ", 0), 0u) << outcome.out;
}

TEST(Program, HelpListsCommandsAndExitCodes) {
  const Outcome outcome = run_dlpipe({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("info"), std::string::npos);
  EXPECT_NE(outcome.out.find("3 stopped by a signal"), std::string::npos);
}

TEST(Program, NoCommandIsMisuseAndShowsHelp) {
  const Outcome outcome = run_dlpipe({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("Commands:"), std::string::npos);
}

TEST(Program, UnknownCommandSuggestsTheNearest) {
  const Outcome outcome = run_dlpipe({"imfo"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("there is no command 'imfo'; did you mean 'info'?"), std::string::npos)
      << outcome.err;
}

TEST(Program, UnknownOptionSuggestsTheNearest) {
  const Outcome outcome = run_dlpipe({"info", "--jsno"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("there is no option '--jsno'; did you mean '--json'?"), std::string::npos)
      << outcome.err;
}

TEST(Program, APartIsNamedAsItIsTyped) {
  const Outcome outcome = run_dlpipe({"bench", "pipeline"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("see 'dlpipe bench pipeline --help'"), std::string::npos) << outcome.err;
}

TEST(Program, SeedsBelowZeroAreMisuse) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"synth", "/nonexistent/out", "--seed", "-1"},
        {"ingest", "/nonexistent", "/nonexistent/out", "--seed", "-1"}}) {
    const Outcome outcome = run_dlpipe(command);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("-1 is below 0"), std::string::npos) << outcome.err;
  }
}

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
