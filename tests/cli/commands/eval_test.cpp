#include <gtest/gtest.h>

#include "dlpipe/io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

TEST(Eval, NeedsNothingButTheCheckpointAndTheData) {
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ((*json)["samples"].as_int(), 80);
  EXPECT_GT((*json)["loss"].as_double(), 0.0);
  EXPECT_GE((*json)["top5"].as_double(), (*json)["top1"].as_double());
}

TEST(Eval, DoesNotDependOnThreadsOrBatchSize) {
  double loss[2] = {};
  int i = 0;
  for (const char* batch : {"16", "33"}) {
    const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val,
                                        "--json", "--batch", batch, "--threads", i == 0 ? "1" : "3"});
    loss[i++] = (*formats::Json::parse(outcome.out))["loss"].as_double();
  }
  EXPECT_NEAR(loss[0], loss[1], 1e-5);
}

TEST(Eval, ABatchIsNoLargerThanTheData) {  // rows without a sample would be computed, too: minutes and 12 GB
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val,
                                      "--json", "--batch", "1000000", "--limit", "20"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ((*formats::Json::parse(outcome.out))["samples"].as_int(), 20);
}

TEST(Eval, ACheckpointThatIsNotThereIsNamed) {
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", "/nonexistent", "--data", trained_run().data.val});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("/nonexistent is no checkpoint"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
