// The measurements of a run: the throughput of the pipeline's stages, how a device's time was spent, how much memory training
// needs, and the results of a validation.
//
// Ownership: values. Threads: plain data; functions are pure. Cost: none beyond copying. A LogitsObserver is called on the
// thread that evaluates, once per batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/stats.h"

namespace dlpipe::run {

// ---- the stages of the pipeline

struct StageRow {
  std::string name;
  int64_t items = 0;
  /// Throughput of the stage's threads if nothing else ran and the stage never waited; 0 if its work was too short to measure.
  double alone_samples_per_s = 0;
  double busy_share = 0;  // of its threads' time
  double wait_share = 0;
};
struct StageReport {
  std::vector<StageRow> rows;
  double samples_per_s = 0;
  /// The bottleneck: a stage, "model", "cores", or for a run also a span; empty: nothing was measured.
  std::string limit;
  std::string advice;  // one sentence; empty if there is no advice
  /// In a run with several processes: this process's communication thread, which also has a row.
  struct Communication {
    double busy_seconds = 0;    // working, or waiting for other processes
    double waited_seconds = 0;  // how long the training thread waited for it
    int64_t bytes_sent = 0;
    /// Share of busy_seconds that training did not wait for.
    double hidden_share() const;
  };
  std::optional<Communication> communication = std::nullopt;
  CacheStats cache = {};  // its directory is empty if there is no cache
};

// ---- a device's time, by its own clock

/// Times over consecutive steps.
struct DeviceTimes {
  LedgerEntry entry;  // wall_ns: from the end of a step to the end of the next
  int64_t steps = 0;

  double waited_s() const;    // for batches and their copies
  double worked_s() const;    // forward, backward, optimizer
  double wait_share() const;  // waited_s / wall time; 0 without steps
};

// ---- memory

/// Bytes by what they are used for. Covers the engine and the batch slots. Not included are the program itself, the memory that
/// the first run uses to search for the fastest kernels, and a dataset's pages, which the operating system reclaims when
/// needed.
struct MemoryPlan {
  int64_t batch = 0;
  uint64_t parameters = 0;  // weights and buffers
  uint64_t gradients = 0;
  uint64_t optimizer = 0;    // its state
  uint64_t activations = 0;  // the most that a step, or a validation, uses in addition to these
  uint64_t workspace = 0;    // kernels' scratch, all threads
  uint64_t slots = 0;        // batches in flight
  uint64_t scratch = 0;      // used by the loaders' threads to decode and augment
  uint64_t average = 0;      // --ema's averaged weights
  /// Size of a checkpoint on disk, for all processes together. Not part of the total.
  uint64_t checkpoint = 0;
  /// What the process used when the plan was made: the program, its libraries and its tables of the data. Not part of the
  /// total. 0: not known.
  uint64_t beside = 0;
  /// Memory for one more sample in the batch, including the slots.
  double bytes_a_sample = 0;

  uint64_t total() const {
    return parameters + gradients + optimizer + activations + workspace + slots + scratch + average;
  }
  /// The largest batch within `limit` bytes; 0 if not even one sample fits.
  int64_t largest_batch(uint64_t limit) const;
};

// ---- a validation

struct EvalReport {
  int64_t samples = 0;  // samples that were evaluated
  int64_t dropped = 0;  // records that could not be used
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics;  // in the order requested
  double seconds = 0;

  /// The value of a metric, or of kLossMetric; NaN if it wasn't requested.
  double value(std::string_view name) const;
};

/// Receives the outputs f32 [N,K] of a batch's rows, in order, including rows of weight 0; `classes` is K. For segment, K is
/// H * W * the number of classes.
using LogitsObserver =
    std::function<void(const Batch& batch, std::span<const float> logits, int64_t classes)>;

}  // namespace dlpipe::run
