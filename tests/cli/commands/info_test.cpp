#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(Info, TellsBuildIsaThreadsAndMemory) {
  const Outcome outcome = run_dlpipe({"info"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"build", "isa", "threads", "memory", "cuda"}) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
  }
}

}  // namespace dlpipe::test
