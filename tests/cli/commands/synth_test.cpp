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

TEST(SynthCommand, MistakesExitWithTwo) {
  const ScratchDirectory dir;
  for (const auto& [size, part] :
       {std::pair("big", "--size big"), std::pair("8", "--size 8..8"), std::pair("40..32", "40..32")}) {
    const Outcome outcome = run_dlpipe({"synth", dir / "jpegs", "--size", size});
    EXPECT_EQ(outcome.exit_code, 2) << size;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run_dlpipe({"synth", dir.path()}).exit_code, 2);
  const Outcome nowhere = run_dlpipe({"synth", "", "--per-class", "1"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.err.find("OUT is empty"), std::string::npos) << nowhere.err;
}

}  // namespace dlpipe::test
