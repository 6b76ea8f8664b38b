#include "run/record/receipt.h"

#include <gtest/gtest.h>
#include <sys/stat.h>  // mkfifo

#include <filesystem>

#include "base/text.h"
#include "io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

using test::ScratchFolder;

static void write_run(const std::string& directory, const Receipt& receipt, const std::string& metrics) {
  std::filesystem::create_directories(directory);
  ASSERT_TRUE(formats::write_json(directory + "/receipt.json", to_json(receipt)).ok());
  ASSERT_TRUE(formats::write_file(directory + "/metrics.jsonl", metrics).ok());
}

static Receipt some_receipt() {
  return {"d",   "p",     "30 of 90 samples, by seed 3",
          3,     "build", "avx2",
          "k",   "mlp",   "f32",
          false, 10,      640,
          true,  "00ff",  "ff00"};
}

TEST(Receipt, RoundTrips) {
  ScratchFolder folder;
  write_run(folder / "a", some_receipt(), "");
  const auto back = read_receipt(folder / "a");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, some_receipt());
}

TEST(CompareRuns, EqualRunsAreTheSame) {
  ScratchFolder folder;
  write_run(folder / "a", some_receipt(), "{\"step\":1}\n");
  write_run(folder / "b", some_receipt(), "{\"step\":1}\n");
  EXPECT_TRUE(compare_runs(folder / "a", folder / "b")->same());
}

TEST(CompareRuns, MetricsThatAreAPipeAreRefusedInsteadOfWaitedFor) {
  ScratchFolder folder;
  write_run(folder / "a", some_receipt(), "");
  write_run(folder / "b", some_receipt(), "");
  std::filesystem::remove(folder / "b/metrics.jsonl");
  ASSERT_EQ(::mkfifo((folder / "b/metrics.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(compare_runs(folder / "a", folder / "b").status().code(), ErrorCode::kUnsupported);
}

TEST(CompareRuns, TellsWhichFieldsAndFromWhichStep) {
  ScratchFolder folder;
  Receipt other = some_receipt();
  other.seed = 4;
  other.parameters_chain = "ff01";
  write_run(folder / "a", some_receipt(), "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n");
  write_run(folder / "b", other, "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n");
  const auto difference = compare_runs(folder / "a", folder / "b");
  ASSERT_TRUE(difference.ok());
  EXPECT_FALSE(difference->same());
  EXPECT_TRUE(difference->same_batches());
  EXPECT_FALSE(difference->same_weights());
  ASSERT_EQ(difference->receipt.size(), 2u);
  EXPECT_EQ(difference->receipt[0].field, "seed");
  EXPECT_EQ(difference->receipt[0].second, "4");
  EXPECT_EQ(difference->first_step, 2);
}

TEST(CompareRuns, KernelsThatWereMeasuredOtherwiseAreTold) {
  ScratchFolder folder;
  Receipt other = some_receipt();
  other.kernels_hash = "l";
  write_run(folder / "a", some_receipt(), "");
  write_run(folder / "b", other, "");
  const auto is_told = [&](const char* first, const char* second) {
    EXPECT_TRUE(formats::write_file(folder / "a/config.toml", first).ok());
    EXPECT_TRUE(formats::write_file(folder / "b/config.toml", second).ok());
    return compare_runs(folder / "a", folder / "b")->has_measured_otherwise();
  };
  EXPECT_TRUE(is_told("", ""));
  EXPECT_TRUE(is_told("", "kernels = \"rules\""));
  EXPECT_FALSE(is_told("kernels = \"rules\"", "kernels = \"rules\""));
  for (const char* run : {"a", "b"})  // by the environment's DLPIPE_KERNELS
    EXPECT_TRUE(
        formats::write_file(folder / concat(run, "/kernels.json"), R"({"choices":{"a":{"kernel":"b"}}})")
            .ok());
  EXPECT_FALSE(is_told("", ""));
  EXPECT_TRUE(formats::write_file(folder / "b/kernels.json",
                                  R"({"choices":{"a":{"kernel":"b","why":"measured 1 ms"}}})")
                  .ok());
  EXPECT_TRUE(is_told("", ""));
  EXPECT_TRUE(formats::write_file(folder / "a/kernels.json", R"({"choices":{}})").ok());
  EXPECT_FALSE(is_told("", "")) << "a run without steps chose none";
  EXPECT_TRUE(formats::write_file(folder / "a/kernels.json", R"({"choices":{"a":{"kernel":"b"}}})").ok());
  EXPECT_FALSE(is_told("batch = 8", "")) << "other shapes have other kernels";
  EXPECT_FALSE(compare_runs(folder / "a", folder / "a")->has_measured_otherwise());
}

TEST(CompareRuns, AShorterRunDiffersWhereItEnds) {
  ScratchFolder folder;
  write_run(folder / "a", some_receipt(), "{\"step\":1}\n{\"step\":2}\n");
  write_run(folder / "b", some_receipt(), "{\"step\":1}\n");
  EXPECT_EQ(compare_runs(folder / "a", folder / "b")->first_step, 2);
}

TEST(CompareRuns, ABeginningIsKnownByTheWeightsThatBothNoted) {
  ScratchFolder folder;
  const auto step = [](int64_t n, const std::string& rest) {
    return concat("{\"step\":", n, ",", rest, "}\n");
  };
  const std::string one = step(1, "\"loss\":1"), two = step(2, "\"loss\":0.5"),
                    three = step(3, "\"loss\":0.2");
  const std::string chain = step(2, "\"parameters_chain\":\"ff\""),
                    other = step(2, "\"parameters_chain\":\"fe\"");
  const std::string judged = step(2, "\"val_loss\":0.7");
  const auto compared = [&](const std::string& shorter, const std::string& longer) {
    Receipt receipt = some_receipt();
    receipt.steps = 2;
    write_run(folder / "a", receipt, shorter);
    receipt.steps = 3;
    write_run(folder / "b", receipt, longer);
    return value_or_throw(compare_runs(folder / "a", folder / "b"));
  };
  const RunDifference known = compared(one + two + chain, one + two + chain + three);
  EXPECT_EQ(known.beginning, 1);
  EXPECT_TRUE(known.is_known_beginning());
  EXPECT_EQ(known.first_step, 3);
  const RunDifference judged_at_its_end = compared(one + two + chain + judged, one + two + chain + three);
  EXPECT_TRUE(judged_at_its_end.is_known_beginning());
  const RunDifference judged_before =
      compared(one + step(1, "\"val_loss\":0.7") + two + chain, one + two + chain + three);
  EXPECT_EQ(judged_before.beginning, 0);
  EXPECT_EQ(judged_before.first_step, 1) << "the other wasn't judged there";
  const RunDifference unknown =
      compared(one + two, one + two + chain + three);  // as before weights were noted
  EXPECT_EQ(unknown.beginning, 1);
  EXPECT_FALSE(unknown.is_known_beginning());
  EXPECT_EQ(unknown.weights_step, -1);
  EXPECT_EQ(compared(one + two + chain, one + two + other + three).beginning, 0);
  EXPECT_EQ(compared(one + two + chain, one + three + chain).beginning, 0);
  EXPECT_EQ(compared("", one).beginning, 0) << "nothing is common";
}

TEST(CompareRuns, ARunWithoutAReceiptIsNamed) {
  ScratchFolder folder;
  write_run(folder / "a", some_receipt(), "");
  const Status status = compare_runs(folder / "a", folder / "b").status();
  EXPECT_NE(status.message().find("has no readable receipt"), std::string::npos) << status.message();
}

}  // namespace dlpipe::run
