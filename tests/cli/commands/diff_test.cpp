#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/formats/json.h"
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

TEST(Diff, OtherTimesOfTheSameKernelsAreNoDifference) {
  ScratchDirectory folder;
  const char* const given = std::getenv("XDG_CACHE_HOME");
  const std::string former = given == nullptr ? "" : given;
  ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  EXPECT_EQ(run_dlpipe(train_arguments(folder / "a", {"--epochs", "0.1", "--kernels", "measured"})).exit_code,
            0);
  int changed = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "dlpipe")) {
    std::string text = file_text(file.path());
    for (size_t at = text.find("\"measured "); at != std::string::npos;
         at = text.find("\"measured ", at + 1)) {
      text.insert(at + 10, "1");
      ++changed;
    }
    std::ofstream(file.path()) << text;
  }
  EXPECT_GT(changed, 0);
  EXPECT_EQ(run_dlpipe(train_arguments(folder / "b", {"--epochs", "0.1", "--kernels", "measured"})).exit_code,
            0);
  given == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", former.c_str(), 1);
  const Outcome outcome = run_dlpipe({"diff", folder / "a", folder / "b"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
}

TEST(Diff, KernelsOfRulesAreNotSaidToBeMeasured) {
  ScratchDirectory folder;
  const std::string rules = folder / "rules", measured = folder / "measured";
  for (const std::string& run : {rules, measured})
    std::filesystem::copy(
        trained_run().run, run,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  std::ofstream(rules + "/kernels.json") << R"({"choices": {"a": {"kernel": "b"}}})";
  std::ofstream(measured + "/kernels.json")
      << R"({"choices": {"a": {"kernel": "b", "why": "measured 1 ms"}}})";
  std::string receipt = file_text(rules + "/receipt.json");
  const std::string key = "\"kernels_hash\"";
  const size_t at = receipt.find('"', receipt.find(key) + key.size()) + 1;
  receipt[at] = receipt[at] == '0' ? '1' : '0';
  std::ofstream(rules + "/receipt.json") << receipt;
  const Outcome outcome = run_dlpipe({"diff", measured, rules});
  EXPECT_NE(outcome.out.find(rules + " chose its kernels by rules, " + measured + " by measuring"),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("the runs measured"), std::string::npos) << outcome.out;
}

// Each grain's batches have a hash of their own: that those differ says nothing of the batches.
TEST(Diff, RunsOfOtherGrainsCannotBeComparedByTheirBatches) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "b", {"--grains", "2"})).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", trained_run().run, folder / "b"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("batches can't be compared"), std::string::npos) << outcome.out;
  const auto json = formats::Json::parse(run_dlpipe({"diff", trained_run().run, folder / "b", "--json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE((*json)["same_batches"].is_null());
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

TEST(Diff, ARunThatWentOnLongerIsToldFromItsBeginning) {
  ScratchDirectory folder;
  const std::string one = folder / "one", two = folder / "two";
  ASSERT_EQ(run_dlpipe(train_arguments(one, {"--epochs", "1", "--schedule", "constant"})).exit_code, 0);
  using std::filesystem::copy_options;
  std::filesystem::copy(one, two, copy_options::recursive | copy_options::copy_symlinks);
  ASSERT_EQ(run_dlpipe({"train", "--resume", two, "--epochs", "2"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", one, two});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find(one + " is the beginning of " + two +
                             ": up to its last step, 20, losses and weights are equal, bit for bit"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nepochs "), std::string::npos) << outcome.out;
  for (const char* word : {"differ", "receipt", "chain"})
    EXPECT_EQ(outcome.out.find(word), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("are not the same run: one of them is longer"), std::string::npos)
      << outcome.err;
  const auto json = formats::Json::parse(run_dlpipe({"diff", two, one, "--json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["beginning"].as_string(), "second");
  EXPECT_EQ((*json)["equal_weights_step"].as_int(), 20);
}

// Stopped within an epoch, where the longer run noted no weights; it validated there, too, and the longer one did not.
TEST(Diff, ABeginningWhoseLastWeightsAreNotKnownSaysWhatWasCompared) {
  ScratchDirectory folder;
  const std::string part = folder / "part", whole = folder / "whole";
  ASSERT_EQ(run_dlpipe(train_arguments(part, {"--max-steps", "25", "--schedule", "constant"})).exit_code, 0);
  ASSERT_EQ(run_dlpipe(train_arguments(whole, {"--schedule", "constant"})).exit_code, 0);
  const Outcome outcome = run_dlpipe({"diff", part, whole});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find(part + " may be the beginning of " + whole +
                             ": up to its last step, 25, all losses are equal; the weights are equal "
                             "after step 20, the last step at which both runs recorded them"),
            std::string::npos)
      << outcome.out;
}

// What a run that ended within an epoch noted there is none of the run that goes on.
TEST(Diff, ARunThatWasEndedWithinAnEpochGoesOnAsIfItHadNot) {
  ScratchDirectory folder;
  const std::vector<std::string> more = {"--schedule", "constant", "--val-every", "never"};
  std::vector<std::string> fewer = more;
  fewer.insert(fewer.end(), {"--max-steps", "25"});
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "whole", more)).exit_code, 0);
  ASSERT_EQ(run_dlpipe(train_arguments(folder / "parts", fewer)).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"train", "--resume", folder / "parts", "--max-steps", "-1"}).exit_code, 0);
  expect_same_run(folder / "whole", folder / "parts");
}

}  // namespace dlpipe::test
