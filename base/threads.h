// Threads that share one piece of work. Where the system gives fewer than were asked for (ulimit -v, ulimit -u,
// a container's limit on processes), half of those that it gives do all of it, so that something of the limit is
// left for the work, and a warning says so.
//
// Owns the threads and joins them on destruction. One thread starts and joins.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"

namespace dlpipe {

class Threads {
 public:
  /// Runs body(0), body(1), ... in threads of their own, `wanted` or fewer. `area` is the tag of messages. An
  /// exception of a body ends that body and is what join() answers.
  Threads(std::string_view area, int wanted, std::function<void(int)> body);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// How many there are; 0 when the system gave none, and join() then says so.
  int count() const { return static_cast<int>(threads_.size()); }
  /// How many bodies haven't returned. Any thread.
  int running() const { return running_.load(); }
  /// Waits for all. The first error; kOutOfMemory when no thread could be started.
  Status join();

 private:
  void start(int kept);
  void work(int index);
  void fail(const Status& status);

  std::string area_;
  std::function<void(int)> body_;
  Mutex mutex_;
  std::condition_variable told_;
  int kept_ DLPIPE_GUARDED_BY(mutex_) = -1;           // how many bodies run; -1: not known yet
  bool has_begun_ DLPIPE_GUARDED_BY(mutex_) = false;  // the others have ended, what they held is free
  Status first_error_ DLPIPE_GUARDED_BY(mutex_);
  std::atomic<int> running_ = 0;
  std::vector<std::thread> threads_;
};

/// Starts so many threads at once and joins them: kOutOfMemory names how many the system gave. For what can't work with
/// fewer than it asked for. Costs some tens of microseconds per thread.
Status check_threads(std::string_view area, int wanted);

}  // namespace dlpipe
