#include <gtest/gtest.h>

#include "dlpipe/io/formats/json.h"
#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(Info, TellsBuildIsaThreadsMemoryAndLibraries) {
  const Outcome outcome = run_dlpipe({"info"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"build", "isa", "threads", "memory", "gpu", "oneTBB", "LMDB", "oneDNN"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(outcome.err, "");
}

TEST(Info, JsonGoesToStdoutAlone) {
  const Outcome outcome = run_dlpipe({"info", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_GE((*json)["threads"].as_int(), 1);
  for (const auto& [name, version] : (*json)["libraries"].members())
    EXPECT_NE(version.as_string(), "") << name;
}

TEST(Info, ShowsAModelsLayers) {
  const Outcome outcome = run_dlpipe({"info", "--model", "lenet", "--size", "28", "--channels", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Conv2d"), std::string::npos) << outcome.out;
  const Outcome json = run_dlpipe({"info", "--model", "lenet", "--json"});
  EXPECT_EQ(json.exit_code, 2) << "not an empty stdout and success";
  EXPECT_NE(json.err.find("--json"), std::string::npos) << json.err;
}

}  // namespace dlpipe::test
