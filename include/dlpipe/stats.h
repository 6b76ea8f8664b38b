// Statistics of where time goes: in the stages of a BatchSource, the parts of a training step, and the communication between
// processes. The loader and the training loop measure them and return these totals.
//
// Times that end in _ns are in nanoseconds. Times of stages are summed over threads and may exceed the wall time.
//
// Ownership: values. Threads: plain data; the functions are pure. Cost: a copy copies some vectors and strings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlpipe {

// ---- of a BatchSource

/// One stage's counters since the source began. Times are summed over threads.
struct StageStats {
  std::string name;
  int64_t items = 0;  // samples
  int64_t bytes = 0;
  int64_t busy_ns = 0;
  int64_t wait_input_ns = 0;   // idle because there was no input
  int64_t wait_output_ns = 0;  // idle because the next stage was full
  int threads = 1;             // how many threads can work on it
};

/// Occupancy of the edge between two stages.
struct EdgeStats {
  std::string name;
  double mean_occupancy = 0;  // number of waiting messages, mean over time
  int64_t capacity = 0;
};

/// Statistics of a source that reads images from files and caches coefficient records of them (pipeline/cache_filler.h).
struct CacheStats {
  std::string directory;  // empty: there is no cache
  int64_t samples = 0;    // in the dataset
  int64_t records = 0;    // in the cache
  int64_t bytes = 0;
  int64_t taken = 0;      // records read from it since the source began
  int64_t unfit = 0;      // images that it couldn't store
  int64_t withdrawn = 0;  // records dropped because they were corrupt or their file changed
  int64_t busy_ns = 0;    // of the threads that make records
  bool is_full = false;   // it has reached its size limit
};

struct SourceStats {
  std::vector<StageStats> stages;
  std::vector<EdgeStats> edges;
  int64_t wall_ns = 0;  // since the source began
  int64_t batches = 0;  // returned by next() so far
  int64_t samples = 0;
  int64_t substituted = 0;    // distinct bad samples
  int64_t scratch_bytes = 0;  // decode scratch held by all threads
  int64_t slot_bytes = 0;     // all slots
  std::string bottleneck;     // the stage that was the bottleneck in the last window; empty: the consumer
  CacheStats cache = {};
};

// ---- of a training step

enum class Span : uint8_t {
  kDataDecode,  // the training thread helped to decode while it waited for data
  kDataIdle,    // the training thread waited for data and had nothing to decode
  kHostToDevice,
  kForward,
  kBackward,
  kOptimizer,
  kCollective,
  kLogging,
  kCheckpoint,
  kMetrics,
  kValidation,
  kLaunchGap,     // devices only: the host hadn't submitted the next step yet
  kKernelSearch,  // timing candidate kernels for a shape, in the first run on a machine
  kStart,         // everything before the first step: opening data, building the model, planning
};
inline constexpr auto kSpanNames = std::to_array<std::string_view>(
    {"data decode", "data idle", "host to device", "forward", "backward", "optimizer", "collective",
     "logging", "checkpoint", "metrics", "validation", "launch gap", "kernel search", "start"});
inline constexpr int kSpanCount = static_cast<int>(kSpanNames.size());
static_assert(static_cast<int>(Span::kStart) == kSpanCount - 1, "each span has its name, at its place");
inline std::string_view span_name(Span span) {
  return kSpanNames[static_cast<size_t>(span)];
}

/// The time of one or more steps, by category.
struct LedgerEntry {
  std::array<int64_t, kSpanCount> span_ns{};
  int64_t wall_ns = 0;

  int64_t covered_ns() const;
  int64_t unaccounted_ns() const { return wall_ns - covered_ns(); }
  /// Wall time of training, without start, kernel search, validations and checkpoints.
  int64_t training_ns() const;
  LedgerEntry& operator+=(const LedgerEntry& other);
  LedgerEntry& operator-=(const LedgerEntry& other);
};

// ---- of processes that train together

/// Totals of the communication thread.
struct CollectiveStats {
  int64_t operations = 0;
  int64_t bytes_sent = 0;  // payload
  int64_t busy_ns = 0;     // from the beginning of an operation to its end, including waiting for peers
};

}  // namespace dlpipe
