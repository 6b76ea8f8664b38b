// The numbers that a loader gives about itself add up.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/counters.h"
#include "base/machine.h"
#include "pipeline/bench.h"
#include "pipeline/plan/stage_counters.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

class StatsTest : public DatasetTest<StatsTest> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "d", {.count = 64});
    write_drawn_dataset(*dir_ / "small", {.count = 200, .layout = data::ImageLayout::kRaw, .size = 16});
    write_drawn_dataset(*dir_ / "large", {.count = 200, .layout = data::ImageLayout::kRaw, .size = 64});
  }

 protected:
  static LoaderOptions options() {
    LoaderOptions options;
    options.data = *dir_ / "d";
    options.augment = "rrc(48) hflip";
    options.batch = 8;
    options.threads = 2;
    options.epochs = 4;
    return options;
  }
  static std::map<std::string, StageStats> by_name(const SourceStats& stats) {
    std::map<std::string, StageStats> stages;
    for (const StageStats& stage : stats.stages) stages[stage.name] = stage;
    return stages;
  }
};

TEST_F(StatsTest, EveryStageCountsEverySampleOnce) {
  for (const bool small : {false, true}) {
    for (const int threads : {1, 2, 4}) {
      LoaderOptions o = options();
      o.threads = threads;
      if (small) {
        o.data = *dir_ / "small";
        o.augment = "pad_crop(16,2) hflip";
        o.batch = 50;
      }
      const auto loader = open_loader(o);
      read_hashes(*loader);
      const int64_t samples = small ? 800 : 256;
      const SourceStats stats = loader->stats();
      EXPECT_EQ(stats.samples, samples);
      EXPECT_EQ(stats.batches, small ? 16 : 32);
      for (const StageStats& stage : stats.stages) EXPECT_EQ(stage.items, samples) << stage.name;
      const auto stages = by_name(stats);
      const int64_t pixels = samples * (small ? 16 * 16 * 3 : 48 * 48 * 3);
      EXPECT_EQ(stages.at("augmenter").bytes, pixels);
      EXPECT_GT(stages.at("reader").bytes, 0);
      EXPECT_GE(stages.at("prefault").bytes, stages.at("reader").bytes);
    }
  }
}

// Threads can't be busy or waiting for longer than they were there. (busy is measured at the borders of runs,
// waiting at the meter's, so nothing is counted twice.)
TEST_F(StatsTest, BusyAndWaitingStayWithinThreadsTimesWall) {
  for (const auto& [threads, mixup] : {std::pair(1, 0.0), {2, 0.0}, {3, 0.0}, {1, 1.0}, {2, 1.0}}) {
    LoaderOptions o = options();
    o.threads = threads;
    o.epochs = 20;
    if (mixup > 0) {  // the batcher makes numbers of all images, and the other stages have little to do
      o.data = *dir_ / "large";
      o.augment = "";
      o.batch = 200;
      o.slots = 1;  // and nothing is ready beside it
      o.mixup = mixup;
      o.image_dtype = DType::kF32;
    }
    const auto loader = open_loader(o);
    EXPECT_TRUE(read_to_error(*loader).ok());  // a trainer that takes no time: nothing is left over
    const SourceStats stats = loader->stats();
    int64_t sum = 0;
    for (const StageStats& stage : stats.stages) {
      EXPECT_GE(stage.busy_ns, 0) << stage.name;
      EXPECT_LE(stage.busy_ns, stage.threads * stats.wall_ns) << stage.name;
      if (stage.name == "prefault" || stage.name == "stager") {
        EXPECT_LE(stage.busy_ns + stage.wait_input_ns, stats.wall_ns) << stage.name;
        continue;
      }
      sum += stage.busy_ns + stage.wait_input_ns + stage.wait_output_ns;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, threads * stats.wall_ns);
    for (const EdgeStats& edge : stats.edges) {
      EXPECT_GE(edge.mean_occupancy, 0) << edge.name;
      EXPECT_GT(edge.capacity, 0) << edge.name;
    }
    EXPECT_LE(stats.edges.back().mean_occupancy, static_cast<double>(o.slots));
  }
}

TEST_F(StatsTest, ASlowTrainerIsNoBottleneckOfThePipeline) {
  LoaderOptions o = options();
  o.batch = 4;
  const auto loader = open_loader(o);
  const auto stood = [&] { return by_name(loader->stats()).at("stager").wait_output_ns; };
  for (int i = 0; i < 3; ++i) {
    read_hashes(*loader, 1);
    // However long the machine takes to make a batch: from then on it stands there until it is taken.
    const int64_t before = stood();
    while (stood() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int64_t from = stood();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_GE(stood() - from, 20'000'000) << "batch " << i;
  }
}

TEST(BottleneckTest, NamesTheStageThatKeptTheTrainerWaiting) {
  Bottleneck::Snapshot before;
  Bottleneck::Snapshot after;
  const auto busy = [&](Stage stage) -> int64_t& { return after.busy_ns[static_cast<size_t>(stage)]; };
  after.flow.since_ns = 1000;
  after.flow.trainer_wait_ns = 10;
  busy(Stage::kDecoder) = 900;
  EXPECT_EQ(Bottleneck::name(before, after), "");  // it hardly waited
  after.flow.trainer_wait_ns = 400;
  EXPECT_EQ(Bottleneck::name(before, after), "decoder");
  busy(Stage::kAugmenter) = 950;
  EXPECT_EQ(Bottleneck::name(before, after), "augmenter");
  busy(Stage::kBatcher) = 960;  // mixes images into numbers
  EXPECT_EQ(Bottleneck::name(before, after), "batcher");
  after.flow.starved_ns = 1500;  // threads idle while runs wait for storage
  busy(Stage::kPrefault) = 990;
  EXPECT_EQ(Bottleneck::name(before, after), "prefault");
}

TEST(FlowMeterTest, ChargesIdleThreadsToWhatTheyWaitedFor) {
  FlowMeter meter(3);  // two workers and the trainer
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  pause();  // nothing anywhere: two workers wait for slots
  const auto blocked = meter.totals();
  EXPECT_GE(blocked.blocked_ns, 2 * 20'000'000);
  EXPECT_EQ(blocked.starved_ns, 0);
  meter.batch_begun(1);
  pause();  // a run is on its way: they wait for storage
  EXPECT_GE(meter.totals().starved_ns, 2 * 20'000'000);
  meter.planned();
  meter.prefaulting();
  meter.ready();
  pause();  // it stands ready: whoever does not take it has other work
  const auto ready = meter.totals();
  EXPECT_GE(ready.ready_queue, 20e6);
  meter.work_begins();
  pause();  // one works, one waits for slots
  const auto working = meter.totals();
  EXPECT_GE(working.blocked_ns - ready.blocked_ns, 20'000'000);
  EXPECT_LE(working.blocked_ns - ready.blocked_ns, (working.since_ns - ready.since_ns));
}

// What the trainer's ledger says of a step that waited for a batch: the wait is split into decoding and
// idling.
TEST_F(StatsTest, NextChargesTheLedger) {
  LoaderOptions o = options();
  o.threads = 1;
  o.slots = 1;
  const auto loader = open_loader(o);
  Ledger ledger;
  ledger.make_current();
  for (int i = 0; i < 8; ++i) {
    ledger.begin_step();
    read_hashes(*loader, 1);
    const LedgerEntry step = ledger.end_step();
    const int64_t decode = step.span_ns[static_cast<size_t>(Span::kDataDecode)];
    const int64_t idle = step.span_ns[static_cast<size_t>(Span::kDataIdle)];
    EXPECT_GT(decode, 0) << "with one thread the trainer decodes everything";
    EXPECT_GE(idle, 0);
    EXPECT_LE(decode + idle, step.wall_ns);
  }
}

TEST_F(StatsTest, TheWorkOfAllStagesIsDecodingToTheLedger) {
  LoaderOptions o = options();
  o.data = *dir_ / "large";
  o.augment = "";
  o.mixup = 1;
  o.image_dtype = DType::kF32;
  o.threads = 1;  // the trainer's own
  o.slots = 1;
  const auto loader = open_loader(o);
  Ledger ledger;
  ledger.make_current();
  ledger.begin_step();
  read_hashes(*loader, 8);
  const LedgerEntry step = ledger.end_step();
  int64_t busy_ns = 0;
  for (const StageStats& stage : loader->stats().stages) {
    if (stage.name != "prefault" && stage.name != "stager") busy_ns += stage.busy_ns;
  }
  EXPECT_GE(step.span_ns[static_cast<size_t>(Span::kDataDecode)], busy_ns);
}

TEST_F(StatsTest, ScratchAndSlotsAreReported) {
  const auto loader = open_loader(options());
  read_hashes(*loader);
  const SourceStats stats = loader->stats();
  EXPECT_GE(stats.slot_bytes, 3 * 8 * (48 * 48 * 3 + 8));
  EXPECT_LT(stats.slot_bytes, 3 * 8 * (48 * 48 * 3 + 8) + 3 * 1024);
  EXPECT_GT(stats.scratch_bytes, 0);
}

// --- the benchmark library ---------------------------------------------------------------------------------

TEST_F(StatsTest, BenchMeasuresWindowsOfASteadyStream) {
  const PipelineBench bench = value_or_throw(bench_pipeline(options(), 0.5));
  EXPECT_EQ(bench.windows.size(), 10u);
  EXPECT_EQ(bench.threads, 2);
  EXPECT_GT(bench.samples_per_s, 0);
  EXPECT_LE(bench.slowest_samples_per_s, bench.samples_per_s);
  EXPECT_GE(bench.fastest_samples_per_s, bench.samples_per_s);
  EXPECT_GE(bench.seconds, 0.5);
  EXPECT_GT(bench.cpu_ns_per_sample, 0);
  EXPECT_GT(bench.peak_resident_bytes, 0u);
  EXPECT_EQ(bench.stats.samples, bench.samples);
  EXPECT_LT(bench.stats.wall_ns, 10'000'000'000);
  for (const StageStats& stage : bench.stats.stages) {
    EXPECT_GE(stage.items, 0);
    const bool is_single = stage.name == "prefault" || stage.name == "stager";
    EXPECT_EQ(stage.threads, is_single ? 1 : 2) << stage.name;  // the others share the pool's threads
  }
}

TEST_F(StatsTest, BenchGivesEachStagesRateAlone) {
  const auto stages = value_or_throw(bench_stages(options(), 0.2));
  ASSERT_EQ(stages.size(), 5u);
  EXPECT_EQ(stages[0].name, "plan");
  EXPECT_EQ(stages[3].name, "decoder");
  for (const StageRate& stage : stages) EXPECT_GT(stage.samples_per_s, 0) << stage.name;
  EXPECT_GT(stages[0].samples_per_s, stages[3].samples_per_s);  // arithmetic against a JPEG
  // Whatever the time: all that is asked for is read.
  const auto bytes_per_sample = [&](size_t i) { return stages[i].bytes_per_s / stages[i].samples_per_s; };
  EXPECT_NEAR(bytes_per_sample(1), bytes_per_sample(2), 1e-6 * bytes_per_sample(2));
}

TEST_F(StatsTest, BenchCountsTheRecordsOfAllImagesThatAreJoined) {
  LoaderOptions o = options();
  o.fields = {"image"};
  o.augment = "resize(24x24) mosaic(24)";
  const auto stages = value_or_throw(bench_stages(o, 0));
  const auto bytes_per_sample = [&](size_t i) { return stages[i].bytes_per_s / stages[i].samples_per_s; };
  EXPECT_GT(bytes_per_sample(1), 0);
  EXPECT_NEAR(bytes_per_sample(1), bytes_per_sample(2), 1e-6 * bytes_per_sample(2));
}

TEST_F(StatsTest, BenchPassesOverDamagedRecords) {
  write_drawn_dataset(*dir_ / "corrupt", {.count = 16, .truncated = {6}});
  flip_bit(*dir_ / "corrupt", 3);
  LoaderOptions o = options();
  o.data = *dir_ / "corrupt";
  o.batch = 16;  // all of them
  EXPECT_GT(value_or_throw(bench_decode(o, 0)).region.samples_per_s, 0);
  EXPECT_GT(value_or_throw(bench_stages(o, 0))[4].samples_per_s, 0);
}

TEST_F(StatsTest, BenchDecodesWholeImagesAndRegions) {
  const DecodeBench bench = value_or_throw(bench_decode(options(), 0.2));
  EXPECT_GT(bench.full.samples_per_s, 0);
  EXPECT_GT(bench.region.samples_per_s, 0);
  EXPECT_GT(bench.mean_pixels, bench.mean_region_pixels);
  EXPECT_GT(bench.mean_bytes, 0);
}

}  // namespace
// A batch that stands ready while the trainer is still in next() is waited for by one of the two.
TEST(FlowMeter, TheTrainersWaitAndAReadyBatchNeverCountTheSameTime) {
  FlowMeter meter(2);
  meter.batch_begun(1);
  meter.trainer_waits(true);
  meter.batch_finished();
  for (const int64_t begin_ns = now_ns(); now_ns() - begin_ns < 2'000'000;) {
  }
  meter.trainer_waits(false);
  const FlowMeter::Totals totals = meter.totals();
  EXPECT_GE(totals.trainer_wait_ns, 2'000'000);
  EXPECT_LE(totals.trainer_wait_ns + totals.finished_any_ns, totals.since_ns);
}

}  // namespace dlpipe::pipeline
