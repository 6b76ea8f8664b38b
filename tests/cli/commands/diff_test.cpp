#include <gtest/gtest.h>

#include "dlpipe/io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

TEST(Diff, ARunEqualsItselfOnOtherThreads) {
  ScratchDirectory folder;
  const std::string config = trained_run().run + "/config.toml";
  ASSERT_EQ(run_dlpipe({"train", "--config", config, "--threads", "1", "--out", folder / "b"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder / "b"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the same run"), std::string::npos) << outcome.out;
}

TEST(Diff, ACompiledRunIsTheSameRunAndSaysNothing) {
  ScratchDirectory folder;
  const Outcome trained = run_dlpipe(train_arguments(folder / "b", {"--compile"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(trained.err.find("--compile"), std::string::npos) << trained.err;
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder / "b"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  expect_same_run(trained_run().run, folder / "b");
}

TEST(Diff, ARunThatCannotBeCompiledSaysWhyOnceAndGoesOn) {
  ScratchDirectory folder;
  const Outcome trained = run_dlpipe(train_arguments(folder / "b", {"--compile", "--loss", "mse"}));
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  const std::string reason =
      "--compile: steps run as they are: the host looks at values of the batch in the middle of the pass";
  const size_t said = trained.err.find(reason);
  EXPECT_NE(said, std::string::npos) << trained.err;
  EXPECT_EQ(trained.err.find(reason, said + 1), std::string::npos) << trained.err;
}

TEST(Diff, AnotherSeedIsToldFieldByField) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "b", {"--seed", "4"})).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder / "b", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_FALSE((*json)["same"].as_bool(true));
  EXPECT_TRUE((*json)["receipt"].contains("seed"));
  EXPECT_EQ((*json)["options"].members().size(), 1u) << "the data are the same: " << outcome.out;
  EXPECT_TRUE((*json)["options"].contains("seed"));
  EXPECT_EQ((*json)["first_different_step"].as_int(), 1);
}

TEST(Diff, OptionsAndDataThatDifferComeBeforeTheHashes) {
  ScratchDirectory folder;
  const std::vector<std::string> more = {"--data", trained_run().data.val, "--lr",
                                         "0.01",   "--optimizer",          "adam"};
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "b", more)).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder / "b"});
  EXPECT_EQ(outcome.exit_code, 1);
  const size_t data = outcome.out.find("\ndata ");
  const size_t lr = outcome.out.find("\nlr ");
  const size_t receipt = outcome.out.find("\nreceipt ");
  ASSERT_NE(data, std::string::npos) << outcome.out;
  ASSERT_NE(lr, std::string::npos) << outcome.out;
  EXPECT_LT(data, receipt);
  EXPECT_LT(lr, receipt);
  EXPECT_NE(outcome.out.find(trained_run().data.val + " ("), std::string::npos) << outcome.out;
}

TEST(Diff, AFolderWithoutAReceiptIsNamed) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("has no readable receipt"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
