#include "pipeline/plan/stage_counters.h"

#include <numeric>

namespace dlpipe::pipeline {

int64_t StageClock::end_portion() {
  const int64_t total = now_ns() - portion_begin_ns_;
  const int64_t timed = std::accumulate(laps_.begin(), laps_.end(), int64_t{0});
  int64_t rest = total;
  for (const Stage stage : {Stage::kReader, Stage::kSelector, Stage::kAugmenter}) {
    const double share =
        timed == 0 ? 0 : static_cast<double>(laps_[lap_index(stage)]) / static_cast<double>(timed);
    const auto part = static_cast<int64_t>(static_cast<double>(total) * share);
    counters_[stage].busy_ns.add(part);
    rest -= part;
  }
  counters_[Stage::kDecoder].busy_ns.add(rest);
  return total;
}

namespace {
constexpr int64_t kWindowNs = 1'000'000'000;
constexpr double kHardlyWaited = 0.02;  // of the window's wall time
constexpr double kStorageBusy =
    0.5;  // of the prefault thread's time: more means that it, not planning, kept workers idle
}  // namespace

Bottleneck::Snapshot Bottleneck::take(PipelineCounters& counters, FlowMeter& meter) {
  Snapshot snapshot;
  snapshot.flow = meter.totals();
  for (int i = 0; i < kStageCount; ++i) {
    snapshot.busy_ns[static_cast<size_t>(i)] = counters[static_cast<Stage>(i)].busy_ns.value();
  }
  return snapshot;
}

std::string Bottleneck::name(const Snapshot& before, const Snapshot& after) {
  const auto busy = [&](Stage stage) {
    const auto i = static_cast<size_t>(stage);
    return after.busy_ns[i] - before.busy_ns[i];
  };
  const auto wall = static_cast<double>(after.flow.since_ns - before.flow.since_ns);
  const auto waited = static_cast<double>(after.flow.trainer_wait_ns - before.flow.trainer_wait_ns);
  if (wall <= 0 || waited < kHardlyWaited * wall) return "";
  const int64_t work = busy(Stage::kPlan) + busy(Stage::kReader) + busy(Stage::kSelector) +
                       busy(Stage::kDecoder) + busy(Stage::kAugmenter) + busy(Stage::kBatcher);
  const int64_t starved = after.flow.starved_ns - before.flow.starved_ns;
  if (starved > work / 2 && static_cast<double>(busy(Stage::kPrefault)) > kStorageBusy * wall) {
    return std::string(stage_name(Stage::kPrefault));
  }
  Stage most = Stage::kDecoder;
  for (const Stage stage :
       {Stage::kPlan, Stage::kReader, Stage::kSelector, Stage::kAugmenter, Stage::kBatcher}) {
    if (busy(stage) > busy(most)) most = stage;
  }
  return std::string(stage_name(most));
}

void Bottleneck::observe(PipelineCounters& counters, FlowMeter& meter) {
  const int64_t now = now_ns();
  const MutexLock lock(mutex_);
  if (window_begin_ns_ != 0 && now - window_begin_ns_ < kWindowNs) return;
  const Snapshot end = take(counters, meter);
  if (window_begin_ns_ != 0) {
    last_ = name(window_begin_, end);
    has_window_ = true;
  }
  window_begin_ns_ = now;
  window_begin_ = end;
}

std::string Bottleneck::last(PipelineCounters& counters, FlowMeter& meter) {
  const MutexLock lock(mutex_);
  return has_window_ ? last_ : name(Snapshot(), take(counters, meter));
}

}  // namespace dlpipe::pipeline
