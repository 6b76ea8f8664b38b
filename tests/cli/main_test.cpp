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
  EXPECT_NE(outcome.err.find("Subcommands"), std::string::npos);
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

}  // namespace dlpipe::test
