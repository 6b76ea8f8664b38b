// Which of several kernels is fastest for a shape on this machine: measured by the op that first meets it, on
// its own tensors, and kept in a file that all processes share. A key has one answer per file, whoever asks and
// whenever: two runs of one seed take the same kernels, also side by side.
//
// kernel_table() asks, where it was told to (KernelTable::measure_with). Internal to engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/engine/core/kernel_table.h"

namespace dlpipe::engine::cpu {

/// Whether a choice is one that the op of its key can run with.
using KernelTest = std::function<bool(const KernelChoice&)>;

/// Thread-safe.
class MeasuredKernels {
 public:
  static constexpr int64_t kMostWait_ns = 60'000'000'000;  // no op takes as long to measure
  static constexpr int64_t kQuietWait_ns = 2'000'000'000;  // most ops take less

  /// Kept at `path` (a file like kernels.json, made when there is something to keep); empty: in memory only.
  /// A file that can't be read is replaced; one that can't be written is said once in the log, and choices
  /// stay in memory.
  /// `most_wait_ns`: how long to wait for another process that measures; then the file is left to it. A wait of
  /// more than `quiet_wait_ns` is said in the log, with who is waited for.
  explicit MeasuredKernels(std::string path, int64_t most_wait_ns = kMostWait_ns,
                           int64_t quiet_wait_ns = kQuietWait_ns)
      : path_(std::move(path)), most_wait_ns_(most_wait_ns), quiet_wait_ns_(quiet_wait_ns) {}

  /// `tell` is called with a key before its kernel is searched for, on the thread whose op needs it. Before the first op.
  void tell_of_searches(std::function<void(const std::string& key)> tell) { tell_ = std::move(tell); }
  /// Keys that were searched for here, and the time that took, with waits for other processes that measure.
  int64_t searches() const { return searches_.load(); }
  int64_t search_ns() const { return search_ns_.load(); }

  /// The file's choice for `key`, or, where there is none or it isn't possible (then with a warning), what
  /// `measure` finds, which is kept. Holds a lock that keeps other processes from measuring at the same time.
  KernelChoice find_or_measure(
      const std::string& key, const std::function<KernelChoice()>& measure,
      const KernelTest& is_possible = [](const KernelChoice&) { return true; });

 private:
  /// What needs no search.
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
  bool has_said_ DLPIPE_GUARDED_BY(mutex_) = false;            // that nothing is kept
  bool has_said_of_choice_ DLPIPE_GUARDED_BY(mutex_) = false;  // that an entry is measured anew
};

/// Where kernel_table() has nobody's choice for `key` but measurements to ask: asks them. They set each of
/// candidates() in turn, call run(), which does the op's whole work with what the table says and may be
/// called any number of times, and leave the fastest in the table. The first candidate is the rule's: another
/// must be clearly faster. Takes tens of runs of small ops, a few of large ones; candidates far behind are
/// given up after two. Any thread; while another one measures, the rule decides.
void measure_choices(const std::string& key, const std::function<std::vector<KernelChoice>()>& candidates,
                     const std::function<void()>& run);

}  // namespace dlpipe::engine::cpu
