#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(SynthCommand, DrawsAFolderByClass) {
  const ScratchDirectory dir;
  const Outcome outcome =
      run_dlpipe({"synth", dir / "jpegs", "--per-class", "3", "--size", "32..40", "--seed", "7"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("30 JPEGs"), std::string::npos) << outcome.out;
  EXPECT_TRUE(std::filesystem::exists(dir / "jpegs/crescent/00002.jpg"));
}

}  // namespace dlpipe::test
