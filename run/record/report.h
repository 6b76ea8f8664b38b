// Analyses a run's speed: a table of the stages, and `dlpipe doctor`.
//
// Where the time went: a row per pipeline stage, a row per part of the training step, and one sentence that says what to speed
// up. Pure functions over the counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/counters.h"
#include "dlpipe/config.h"
#include "dlpipe/report.h"
#include "dlpipe/stats.h"
#include "io/formats/json.h"
#include "run/record/device_ledger.h"

namespace dlpipe::run {

/// Below this share of the time, training counts as not waiting for data.
inline constexpr double kNegligibleWait = 0.05;
/// Shorter training is not judged, because its first batches waited until the pipeline had started, or came from full queues.
inline constexpr int64_t kShortestJudged_ns = 2'000'000'000;

/// What limits the speed. The progress line, the tables at a run's end, ledger.json and `dlpipe doctor` all use judge_speed().
struct Judgement {
  /// What to speed up: a stage's name, "model", or "cores" if the pipeline's threads did not get enough CPU time; empty if
  /// nothing was measured.
  std::string limit;
  std::string advice;  // one sentence
};
/// `data_wait_share` is the share of training's time spent waiting for data, negative without training (bench); `samples_per_s`
/// is the rate at which the source was read.
Judgement judge_speed(const SourceStats& stats, double data_wait_share, double samples_per_s);

/// `data_wait_share` is the share of the training steps' wall time that went to data; negative: no trainer (bench).
/// `training_ns` is that time, without validations and checkpoints, during which the source is idle; 0: the source's own.
StageReport report_stages(const SourceStats& stats, double data_wait_share, int64_t training_ns = 0);
/// Changes `report` to the judgement of a whole run. There is none if it trained for less than kShortestJudged_ns. If training
/// took less than half of the time, the limit is what took most of the rest.
void weigh_training(const LedgerEntry& run, StageReport& report);
/// Adds a row for the communication thread, for a run of `samples` that took the time `total`.
void add_communication(const CollectiveStats& collective, const LedgerEntry& total, int64_t samples,
                       StageReport& report);
/// Cores needed to decode and augment this many samples per second, based on the measured times; 0: nothing was measured.
double cores_for(const SourceStats& stats, double samples_per_s);

/// What a cache of coefficient records did, in one sentence; "" if there is none.
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
  /// In a run of a few seconds, one-time work at its start and end exceeds kMaxUnaccounted without being a problem.
  static constexpr double kShortSeconds = 10;
  bool lacks_something() const { return !adds_up() && wall_seconds >= kShortSeconds; }
};
LedgerReport report_ledger(const LedgerEntry& total);

/// The ledger of a device, by its own clock.
formats::Json to_json(const DeviceTimes& device);
/// ledger.json: the ledger, the stages, the device's ledger, and the steps of the run and of the session. Absent parts
/// (processes, cache, device) are null.
formats::Json to_json(const LedgerReport& ledger, const StageReport& stages, const DeviceTimes& device,
                      int64_t steps, int64_t session_steps);

// What the figures of a run, finished or in progress, say about its speed: which side is the bottleneck, and what to try. Pure
// functions over ledger.json and the run's options.

struct Finding {
  std::string what;  // a sentence with a figure
  std::string advice;
  double share = 0;  // of the time in question; the most that could be saved
};

struct Diagnosis {
  std::string verdict;            // one sentence: the limit
  std::vector<Finding> findings;  // the largest first; empty: nothing to gain was found
};

struct MachineFacts {
  bool has_bf16 = false;            // products are faster in bf16 than in f32
  std::string dataset_layout = {};  // of its first image, as image_layout_name says; empty: unknown
  int64_t quarantined_samples = 0;
  bool is_training = false;  // a process trains in the run directory
  std::string run = "RUN";   // its directory, for commands
};

/// kCorrupt if the file is not a ledger.
Result<Diagnosis> diagnose(const formats::Json& ledger, const TrainConfig& config, const MachineFacts& facts);

}  // namespace dlpipe::run
