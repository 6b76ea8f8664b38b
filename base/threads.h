// Threads that share one piece of work (Threads), and a process-wide limit on oneTBB's threads (WorkerLimit).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/error.h"

namespace dlpipe {

/// Owns threads and joins them on destruction. If the system allows fewer than requested (ulimit -v, ulimit
/// -u, a container's limit on processes), only half of those run and do all of the work, so that part of the
/// limit is left for the work itself; a warning is logged. One thread constructs and joins it.
class Threads {
 public:
  /// Runs body(0), body(1), ..., each in its own thread, with `wanted` threads or fewer. `area` is the tag of
  /// messages. An exception ends its body, and join() returns it.
  Threads(std::string_view area, int wanted, std::function<void(int)> body);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// The number of threads; 0 if none could be started, which join() then reports.
  int count() const { return static_cast<int>(threads_.size()); }
  /// The number of bodies that haven't returned. Any thread.
  int running() const { return running_.load(); }
  /// Waits for all threads. Returns the first error; kOutOfMemory if no thread could be started.
  Status join();
  /// The same, but calls `look` every 20 ms until all bodies have returned, to show progress and to check whether to stop.
  Status join(const std::function<void()>& look);

 private:
  void start(int kept);
  void work(int index);
  void fail(const Status& status);

  std::string area_;
  std::function<void(int)> body_;
  Mutex mutex_;
  std::condition_variable changed_;
  int kept_ DLPIPE_GUARDED_BY(mutex_) = -1;  // number of bodies to run; -1: not known yet
  bool has_begun_ DLPIPE_GUARDED_BY(mutex_) =
      false;  // the surplus threads have ended, and their memory is free
  Status first_error_ DLPIPE_GUARDED_BY(mutex_);
  std::atomic<int> running_ = 0;
  std::vector<std::thread> threads_;
};

/// Starts `wanted` threads at once and joins them. If not all can be started, returns kOutOfMemory with the
/// number that could. For work that can't be done with fewer threads. Costs some tens of microseconds per thread.
Status check_threads(std::string_view area, int wanted);

/// While this object lives, oneTBB may use `threads` threads, including the caller's. oneTBB itself uses the
/// smallest limit in the process; objects of this class share one limit, the largest of theirs. Any thread.
/// An object may live until the process ends.
class WorkerLimit {
 public:
  explicit WorkerLimit(int threads);
  ~WorkerLimit();
  WorkerLimit(const WorkerLimit&) = delete;
  WorkerLimit& operator=(const WorkerLimit&) = delete;

 private:
  std::multiset<int>::iterator self_;
};

}  // namespace dlpipe
