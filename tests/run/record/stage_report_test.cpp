#include "run/record/report.h"

#include <gtest/gtest.h>

namespace dlpipe::run {

constexpr int64_t kSecond = 1'000'000'000;

static SourceStats two_stages() {
  SourceStats stats;
  stats.wall_ns = 10 * kSecond;
  stats.samples = 1000;
  stats.stages = {{"reader", 1000, 0, 1 * kSecond, 2 * kSecond, 0, 1},
                  {"decoder", 1000, 0, 16 * kSecond, kSecond, kSecond, 2}};
  stats.bottleneck = "decoder";
  return stats;
}

TEST(StageReport, CoresForARateAreTheWorkOfItsSamples) {
  SourceStats stats;
  stats.stages = {{.name = "prefault", .items = 100, .busy_ns = 900'000'000},
                  {.name = "decoder", .items = 100, .busy_ns = 200'000'000, .threads = 2},
                  {.name = "augmenter", .items = 50, .busy_ns = 50'000'000, .threads = 2}};
  EXPECT_NEAR(cores_for(stats, 1000), 3.0, 1e-9);  // 2 ms and 1 ms per sample
  EXPECT_EQ(cores_for(SourceStats(), 1000), 0);
}

TEST(StageReport, RatesAndSharesFollowFromTheCounters) {
  const StageReport report = report_stages(two_stages(), 0.5);
  EXPECT_DOUBLE_EQ(report.rows[0].alone_samples_per_s,
                   1000);                                     // 1000 items in 1 busy second of its one thread
  EXPECT_DOUBLE_EQ(report.rows[1].alone_samples_per_s, 125);  // 16 busy seconds over two threads
  EXPECT_DOUBLE_EQ(report.rows[1].busy_share, 0.8);
  EXPECT_DOUBLE_EQ(report.rows[1].wait_share, 0.1);
  EXPECT_DOUBLE_EQ(report.samples_per_s, 100);
}

TEST(StageReport, NamesTheStageWhenTrainingWaitsAndTheModelWhenNot) {
  EXPECT_EQ(report_stages(two_stages(), 0.5).advice.rfind("Speed up the decoder", 0), 0u);
  EXPECT_EQ(report_stages(two_stages(), 0.01).advice.rfind("Speed up the model", 0), 0u);
  EXPECT_EQ(report_stages(two_stages(), -1).advice.rfind("Speed up the decoder", 0), 0u);
  EXPECT_EQ(report_stages(two_stages(), 0.5).limit, "decoder");
  EXPECT_EQ(report_stages(two_stages(), 0.01).limit, "model");
}

TEST(StageReport, APipelineWithPlentyToSpareIsNotWhatLimits) {
  SourceStats stats = two_stages();
  for (StageStats& stage : stats.stages) stage.busy_ns /= 100;
  EXPECT_EQ(report_stages(stats, 0.2).advice.rfind("Speed up the model", 0), 0u)
      << report_stages(stats, 0.2).advice;
}

TEST(StageReport, APipelineThatIsKeptFromTheCoresIsNotHelpedByAFasterModel) {
  SourceStats stats = two_stages();
  for (StageStats& stage : stats.stages) stage.busy_ns /= 100;
  const StageReport report = report_stages(stats, 0.92);
  EXPECT_EQ(report.limit, "cores");
  EXPECT_EQ(report.advice,
            "Give the pipeline's threads more CPU time: training waited for data 92.0 % of the time, and the "
            "pipeline alone could deliver 11,111 samples/s, but it delivered 100 samples/s; other programs, "
            "a limit on cores or training's own threads used the CPU.");
}

// 2 s of training and 8 s of validations and checkpoints, while the source stood still.
TEST(StageReport, WhatThePipelineGaveIsCountedInTrainingsOwnTime) {
  SourceStats stats = two_stages();
  for (StageStats& stage : stats.stages) stage.busy_ns /= 8;  // 889 samples/s alone
  EXPECT_EQ(report_stages(stats, 0.6).limit, "cores");        // of 100 samples/s
  const StageReport report = report_stages(stats, 0.6, 2 * kSecond);
  EXPECT_DOUBLE_EQ(report.samples_per_s, 500);
  EXPECT_EQ(report.limit, "decoder") << report.advice;
}

// 63,786,310,518 samples/s were what 0.7 us of work for a whole run gave.
TEST(StageReport, WorkTooShortToMeasureGivesNoRate) {
  SourceStats stats = two_stages();
  for (StageStats& stage : stats.stages) stage.busy_ns = 300;
  const StageReport report = report_stages(stats, 0.01);
  for (const StageRow& row : report.rows) EXPECT_EQ(row.alone_samples_per_s, 0);
  EXPECT_EQ(report.limit, "model");
  EXPECT_EQ(report.advice, "Speed up the model: training waited for data 1.0 % of the time.");
}

static LedgerEntry run_of(int64_t training_ns, Span beside, int64_t beside_ns) {
  LedgerEntry run;
  run.wall_ns = training_ns + beside_ns;
  run.span_ns[static_cast<size_t>(beside)] = beside_ns;
  return run;
}

TEST(StageReport, ARunThatHardlyTrainedIsNotJudged) {
  StageReport report = report_stages(two_stages(), 0.5);
  weigh_training(run_of(kSecond, Span::kStart, 9 * kSecond), report);
  EXPECT_EQ(report.limit, "");
  EXPECT_EQ(report.advice, "");
}

TEST(StageReport, WhatTookMoreThanTrainingIsTheLimit) {
  for (const Span span : {Span::kStart, Span::kKernelSearch, Span::kValidation, Span::kCheckpoint}) {
    StageReport report = report_stages(two_stages(), 0.01);
    weigh_training(run_of(10 * kSecond, span, 90 * kSecond), report);
    EXPECT_EQ(report.limit, span_name(span));
    EXPECT_EQ(report.advice,
              "Training took 10.0 % of the run, and " + std::string(span_name(span)) + " 90.0 %.");
  }
  StageReport report = report_stages(two_stages(), 0.01);
  weigh_training(run_of(90 * kSecond, Span::kStart, 10 * kSecond), report);
  EXPECT_EQ(report.limit, "model");
}

TEST(StageReport, NothingMeasuredIsNoDivisionByZero) {
  const StageReport report = report_stages(SourceStats{}, 0);
  EXPECT_EQ(report.samples_per_s, 0);
  EXPECT_EQ(report.advice, "Nothing was measured.");
}

TEST(LedgerReport, SharesAddUpWithTheUnaccounted) {
  LedgerEntry entry;
  entry.wall_ns = 100;
  entry.span_ns[static_cast<size_t>(Span::kForward)] = 60;
  entry.span_ns[static_cast<size_t>(Span::kDataIdle)] = 30;
  const LedgerReport report = report_ledger(entry);
  double sum = report.unaccounted_share;
  for (const LedgerRow& row : report.rows) sum += row.share;
  EXPECT_DOUBLE_EQ(sum, 1.0);
  EXPECT_DOUBLE_EQ(report.unaccounted_share, 0.1);
  EXPECT_DOUBLE_EQ(report.data_wait_share, 0.3);
  EXPECT_FALSE(report.adds_up());
  EXPECT_FALSE(report.lacks_something()) << "100 ns are too short a run to say so";
  entry.wall_ns = 100 * kSecond;
  EXPECT_TRUE(report_ledger(entry).lacks_something());
}

TEST(LedgerReport, ADevicesGoesIntoTheJson) {
  DeviceTimes device;
  device.steps = 3;
  device.entry.wall_ns = 10 * kSecond;
  device.entry.span_ns[static_cast<size_t>(Span::kDataIdle)] = 1 * kSecond;
  device.entry.span_ns[static_cast<size_t>(Span::kHostToDevice)] = 2 * kSecond;
  device.entry.span_ns[static_cast<size_t>(Span::kBackward)] = 4 * kSecond;
  device.entry.span_ns[static_cast<size_t>(Span::kLaunchGap)] = 3 * kSecond;
  EXPECT_DOUBLE_EQ(device.wait_share(), 0.3);
  const formats::Json json = to_json(LedgerReport(), StageReport(), device, 4, 4)["device"];
  EXPECT_TRUE(json["adds_up"].as_bool());
  EXPECT_DOUBLE_EQ(json["waited_seconds"].as_double(), 3);
  EXPECT_DOUBLE_EQ(json["worked_seconds"].as_double(), 4);
  EXPECT_DOUBLE_EQ(json["spans"]["launch gap"]["share"].as_double(), 0.3);
}

TEST(LedgerReport, WhatThereWasNoneOfIsNullInTheJson) {
  const formats::Json json = to_json(LedgerReport(), StageReport(), DeviceTimes(), 4, 3);
  for (const char* key : {"communication", "cache", "device"}) {
    EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

}  // namespace dlpipe::run
