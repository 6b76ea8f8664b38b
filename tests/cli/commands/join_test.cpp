#include <gtest/gtest.h>

#include <filesystem>

#include "dlpipe/io/formats/atomic_file.h"
#include "tests/cli/program.h"

namespace dlpipe::test {
namespace {

std::string bytes_of(const std::string& file) {
  const auto bytes = formats::read_file(file);
  EXPECT_TRUE(bytes.ok()) << file;
  return bytes.ok() ? *bytes : "";
}

// As an array of jobs does it: each part by a command of its own, then one dataset of all.
TEST(JoinCommand, MakesTheDatasetThatOneIngestMakes) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "12", "--size", "32..40"}).exit_code, 0);
  const std::vector<std::string> ingest = {"ingest", dir / "jpegs", dir / "whole", "--split", "0.75,0.25"};
  ASSERT_EQ(run_dlpipe(ingest).exit_code, 0);
  std::vector<std::string> join = {"join", dir / "joined"};
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    std::vector<std::string> words = ingest;
    words[2] = dir.path() + "/part" + part[0];
    words.insert(words.end(), {"--part", part});
    const Outcome outcome = run_dlpipe(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    join.push_back(words[2]);
  }
  std::vector<std::string> incomplete(join.begin(), join.end() - 1);
  const Outcome missing = run_dlpipe(incomplete);
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("a part is missing: '3/3'"), std::string::npos) << missing.err;
  const Outcome joined = run_dlpipe(join);
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_NE(joined.out.find(dir / "joined/train"), std::string::npos) << joined.out;
  for (const char* split : {"/train/data.mdb", "/val/data.mdb"})
    EXPECT_TRUE(bytes_of(dir / "joined" + split) == bytes_of(dir / "whole" + split)) << split;
  const Outcome verified = run_dlpipe({"verify", dir / "joined/train"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  const Outcome again = run_dlpipe(join);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("it was there already"), std::string::npos) << again.out;
}

TEST(JoinCommand, MistakesExitWithTwo) {
  const ScratchDirectory dir;
  EXPECT_EQ(run_dlpipe({"join", dir / "dst"}).exit_code, 2);
  EXPECT_EQ(run_dlpipe({"join", "", dir.path()}).exit_code, 2);
  const Outcome no_part = run_dlpipe({"join", dir / "dst", dir.path()});
  EXPECT_EQ(no_part.exit_code, 2);
  EXPECT_NE(no_part.err.find("is no part of an ingest, it has no part.json"), std::string::npos)
      << no_part.err;
  const Outcome part = run_dlpipe({"ingest", dir.path(), dir / "dst", "--part", "17/16"});
  EXPECT_EQ(part.exit_code, 2);
  EXPECT_NE(part.err.find("--part 17/16; give its number and how many there are"), std::string::npos)
      << part.err;
}

}  // namespace
}  // namespace dlpipe::test
