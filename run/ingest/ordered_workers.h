// Threads that work on numbered items at once and hand the outcomes back in the items' order.
//
// Holds threads (fewer than asked for where the system gives no more), one lock and two conditions; nothing
// else touches them. The owner's thread calls next();
// destruction stops and joins. Workers start no item whose cost would bring what was started but not yet
// taken over `window`; one run of items is always allowed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/threads.h"
#include "dlpipe/io/data/record.h"

namespace dlpipe::ingest {

class OrderedWorkers {
 public:
  using Outcome = Result<data::PackedRecord>;
  struct Job {
    uint64_t begin = 0;  // items [begin, end)
    uint64_t end = 0;
    uint64_t window = 0;                         // in units of cost
    std::function<uint64_t(uint64_t)> cost;      // of an item; pure
    std::function<Outcome(int, uint64_t)> work;  // (worker, item); must not throw
  };

  OrderedWorkers(int workers, Job job);
  ~OrderedWorkers();
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  /// The outcome of the next item, waiting for it. Call exactly end - begin times, or until an error that is
  /// the threads' own (kOutOfMemory).
  Outcome next();
  /// Time that next() waited.
  int64_t taker_wait_ns() const { return taker_wait_ns_; }

 private:
  // Tiny items travel many at once: a lock and a wake-up for each would cost more than their work.
  struct Run {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t cost = 0;
    bool done = false;
    std::vector<Outcome> outcomes;
  };
  void work(int worker);
  void work_until_done(int worker);
  void fail(const Status& status);
  Run* claim(MutexLock& lock) DLPIPE_REQUIRES(mutex_);

  Job job_;
  Mutex mutex_;
  std::condition_variable run_done_;
  std::condition_variable window_moved_;
  /// Claimed and not yet taken, in order; addresses stay while others come and go.
  std::deque<Run> runs_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t next_item_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t cost_in_flight_ DLPIPE_GUARDED_BY(mutex_) = 0;
  bool stopping_ DLPIPE_GUARDED_BY(mutex_) = false;
  Run taking_;  // the taker's own
  size_t taken_ = 0;
  int64_t taker_wait_ns_ = 0;
  Status failure_ DLPIPE_GUARDED_BY(mutex_);  // of the threads themselves: next() answers it
  std::unique_ptr<Threads> threads_;
};

}  // namespace dlpipe::ingest
