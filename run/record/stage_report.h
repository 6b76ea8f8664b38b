// Where the time went, in the terms of someone who wants it faster: a row per pipeline stage, a row per part
// of the training step, and one sentence that names what to speed up. Pure functions over the counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/device_ledger.h"

namespace dlpipe::run {

/// Below this share of the time training is said not to wait for data.
inline constexpr double kNegligibleWait = 0.05;
/// Less training than this isn't judged: its first batches waited for the first of all, or came from queues that were full.
inline constexpr int64_t kShortestJudged_ns = 2'000'000'000;

/// What limits a speed. The progress line, the tables at a run's end, ledger.json and `dlpipe doctor` all have it from judge_speed().
struct Judgement {
  /// What to speed up: a stage's name, "model", or "cores" where the pipeline's threads didn't get the CPU; empty where nothing was
  /// measured.
  std::string limit;
  std::string advice;  // one sentence
};
/// `data_wait_share` is the share of training's time that went to waiting for data, negative where nothing trains (bench);
/// `samples_per_s` what was taken of the source.
Judgement judge_speed(const SourceStats& stats, double data_wait_share, double samples_per_s);

struct StageRow {
  std::string name;
  int64_t items = 0;
  /// What the stage's threads could do if nothing else ran and nothing made it wait; 0 where its work took too little time to tell.
  double alone_samples_per_s = 0;
  double busy_share = 0;  // of its threads' time
  double wait_share = 0;
};
struct StageReport {
  std::vector<StageRow> rows;
  double samples_per_s = 0;
  std::string limit;   // as in Judgement; of a run also the name of a span (weigh_training)
  std::string advice;  // one sentence; empty where there is nothing to say
  /// Of a run of several processes: this one's communication thread, which has a row, too.
  struct Communication {
    double busy_seconds = 0;    // at work or waiting for others
    double waited_seconds = 0;  // of the training thread, for it
    int64_t bytes_sent = 0;
    /// Share of busy_seconds that training did not wait for.
    double hidden_share() const;
  };
  std::optional<Communication> communication = std::nullopt;
  CacheStats cache = {};  // without a directory: there is none
};
/// `data_wait_share` is the share of the training steps' wall time that went to data; negative: no trainer
/// (bench). `training_ns` is that time: validations and checkpoints, while the source stands still, say nothing of
/// what it can give; 0: the source's own.
StageReport report_stages(const SourceStats& stats, double data_wait_share, int64_t training_ns = 0);
/// The judgement of a whole run: none where it trained for less than kShortestJudged_ns; where training took less than half of its
/// time, what took most of the rest limits it.
void weigh_training(const LedgerEntry& run, StageReport& report);
/// Adds what the communication thread did for `samples` of a run whose time is `total`.
void add_communication(const engine::CollectiveStats& collective, const LedgerEntry& total, int64_t samples,
                       StageReport& report);
/// Cores that decode and augment so many samples per second, by what they took so far; 0: nothing was measured.
double cores_for(const SourceStats& stats, double samples_per_s);

/// What a cache of coefficient records did, in one sentence; "" where there is none.
std::string cache_text(const CacheStats& cache);

/// 0.123 -> "12.3 %".
std::string percent(double share);

struct LedgerRow {
  std::string name;
  double seconds = 0;
  double share = 0;  // of the wall time
};
struct LedgerReport {
  std::vector<LedgerRow> rows;  // categories that took time, largest first
  double wall_seconds = 0;
  double unaccounted_seconds = 0;
  double unaccounted_share = 0;
  double data_wait_share =
      0;  // decode by the trainer + idle, of the time without start, validation, checkpoint
  static constexpr double kMaxUnaccounted = 0.01;
  bool adds_up() const { return unaccounted_share < kMaxUnaccounted; }
  /// In a run of a few seconds what comes once, at its begin and end, is more than kMaxUnaccounted and says nothing.
  static constexpr double kShortSeconds = 10;
  bool lacks_something() const { return !adds_up() && wall_seconds >= kShortSeconds; }
};
LedgerReport report_ledger(const LedgerEntry& total);

/// The same of a device, by its own clock.
formats::Json to_json(const DeviceTimes& device);
/// ledger.json: both, the device's ledger, and the step count. What there was none of (processes, cache, device) is null.
formats::Json to_json(const LedgerReport& ledger, const StageReport& stages, const DeviceTimes& device,
                      int64_t steps);

}  // namespace dlpipe::run
