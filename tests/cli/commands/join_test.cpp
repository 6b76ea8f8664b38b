#include <gtest/gtest.h>

#include <filesystem>

#include "io/formats/atomic_file.h"
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
  EXPECT_NE(again.out.find("the dataset already exists"), std::string::npos) << again.out;
}

}  // namespace
}  // namespace dlpipe::test
