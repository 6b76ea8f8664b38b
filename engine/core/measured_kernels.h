// Measures which of several kernels is fastest for a shape on this machine. The first op with a new shape
// measures, on its own tensors, and the result is stored in a file that all processes share. A key has one
// result per file, so that two runs with the same seed use the same kernels, even at the same time.
//
// kernel_table() uses it if KernelTable::measure_with was called. Internal to engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/core/kernel_table.h"

namespace dlpipe::engine::cpu {

/// Whether the op of a key can run with a choice.
using KernelTest = std::function<bool(const KernelChoice&)>;

/// Thread-safe.
class MeasuredKernels {
 public:
  static constexpr int64_t kMostWait_ns = 60'000'000'000;  // no op takes that long to measure
  static constexpr int64_t kQuietWait_ns = 2'000'000'000;  // most ops take less

  /// Stores results at `path` (a file like kernels.json, created with the first result); empty: in memory only.
  /// Replaces a file that can't be read. Logs once if the file can't be written; choices then stay in
  /// memory.
  /// `most_wait_ns`: how long to wait for another process that measures before giving up on the file. A wait of
  /// more than `quiet_wait_ns` is logged with the process that is waited for.
  explicit MeasuredKernels(std::string path, int64_t most_wait_ns = kMostWait_ns,
                           int64_t quiet_wait_ns = kQuietWait_ns)
      : path_(std::move(path)), most_wait_ns_(most_wait_ns), quiet_wait_ns_(quiet_wait_ns) {}

  /// `tell` is called with a key before each search, on the thread of the op that needs the kernel. Set it before the first op.
  void tell_of_searches(std::function<void(const std::string& key)> tell) { tell_ = std::move(tell); }
  /// The number of searches, and their total time including waits for other processes that measure.
  int64_t searches() const { return searches_.load(); }
  int64_t search_ns() const { return search_ns_.load(); }

  /// The file's choice for `key`. If there is none, or the op can't run with it (which logs a warning), calls `measure`
  /// and stores its result. Holds a lock meanwhile, so that other processes don't measure at the same time.
  KernelChoice find_or_measure(
      const std::string& key, const std::function<KernelChoice()>& measure,
      const KernelTest& is_possible = [](const KernelChoice&) { return true; });

 private:
  /// The choice for `key` if it needs no search.
  std::optional<KernelChoice> find_known(const std::string& key, const KernelTest& is_possible);
  KernelChoice search(const std::string& key, const std::function<KernelChoice()>& measure,
                      const KernelTest& is_possible);
  std::optional<KernelChoice> find(const std::string& key, const KernelTest& is_possible)
      DLPIPE_REQUIRES(mutex_);
  void read() DLPIPE_REQUIRES(mutex_);
  void write() DLPIPE_REQUIRES(mutex_);

  Mutex mutex_;
  std::string path_ DLPIPE_GUARDED_BY(mutex_);
  const int64_t most_wait_ns_;
  const int64_t quiet_wait_ns_;
  std::function<void(const std::string&)> tell_;
  std::atomic<int64_t> searches_{0}, search_ns_{0};
  KernelTable known_ DLPIPE_GUARDED_BY(mutex_);
  bool has_said_ DLPIPE_GUARDED_BY(mutex_) = false;            // logged that nothing is saved
  bool has_said_of_choice_ DLPIPE_GUARDED_BY(mutex_) = false;  // logged that an entry is measured again
};

/// Measures the kernels for `key` if kernel_table() has no choice for it and measures (measure_with). Sets each
/// of candidates() in turn, calls run(), and leaves the fastest in the table. run() does the op's whole work
/// with the table's choice and may be called any number of times. The first candidate is the rule's; another one
/// must be clearly faster to replace it. Runs small ops some tens of times, large ones a few times; drops slow
/// candidates after two runs. Any thread; while another thread measures, the rule decides.
void measure_choices(const std::string& key, const std::function<std::vector<KernelChoice>()>& candidates,
                     const std::function<void()>& run);

}  // namespace dlpipe::engine::cpu
