// Threads that share one piece of work (Threads), and the limit on oneTBB's threads that all of the process share (WorkerLimit).
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

/// Owns threads and joins them on destruction. If the system allows fewer than were requested (ulimit -v, ulimit -u, a container's
/// limit on processes), half of those that it allows do all of the work, so that some of the limit is left for it, and a warning
/// is logged. One thread starts and joins.
class Threads {
 public:
  /// Runs body(0), body(1), ..., each in its own thread, `wanted` or fewer. `area` is the tag of messages. An
  /// exception of a body ends that body, and join() returns it.
  Threads(std::string_view area, int wanted, std::function<void(int)> body);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// How many there are; 0 if none could be started, which join() then reports.
  int count() const { return static_cast<int>(threads_.size()); }
  /// How many bodies haven't returned. Any thread.
  int running() const { return running_.load(); }
  /// Waits for all. The first error; kOutOfMemory when no thread could be started.
  Status join();
  /// The same; until then calls `look` every 20 ms, to show progress and to ask whether to stop.
  Status join(const std::function<void()>& look);

 private:
  void start(int kept);
  void work(int index);
  void fail(const Status& status);

  std::string area_;
  std::function<void(int)> body_;
  Mutex mutex_;
  std::condition_variable changed_;
  int kept_ DLPIPE_GUARDED_BY(mutex_) = -1;  // how many bodies run; -1: not known yet
  bool has_begun_ DLPIPE_GUARDED_BY(mutex_) =
      false;  // the surplus threads have ended, and their memory is free
  Status first_error_ DLPIPE_GUARDED_BY(mutex_);
  std::atomic<int> running_ = 0;
  std::vector<std::thread> threads_;
};

/// Starts `wanted` threads at once and joins them; kOutOfMemory with how many could be started if that fails. For work that can't be
/// done with fewer. Costs some tens of microseconds per thread.
Status check_threads(std::string_view area, int wanted);

/// While this object lives, oneTBB may use `threads` threads, including the caller's. oneTBB itself uses the smallest of all
/// limits in the process; objects of this class share one limit, the largest of theirs. Any thread; also in objects that live
/// until the process ends.
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
