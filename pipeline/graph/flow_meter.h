// Where portions and batches stand, integrated over time: how full each edge is, and why threads had nothing to
// do.
//
// Called once or twice per portion, from any thread; a lock held for some nanoseconds. Times are thread-seconds: a
// thread counts as idle while it could have decoded and no portion was ready. It then waited for input if a portion
// was on its way (storage is slow), and for output if there was none (every slot is full: the trainer is
// slow). The trainer's thread is counted only while it waits in next().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/mutex.h"

namespace dlpipe::pipeline {

class FlowMeter {
 public:
  struct Totals {
    int64_t since_ns = 0;         // wall time integrated over
    double prefault_queue = 0;    // portion-nanoseconds of waiting for the prefault thread
    double ready_queue = 0;       // portion-nanoseconds of waiting for a decoding thread
    double finished_batches = 0;  // batch-nanoseconds of waiting for the trainer
    int64_t starved_ns = 0;       // thread-nanoseconds idle, a portion being prefaulted
    int64_t blocked_ns = 0;       // thread-nanoseconds idle, no portion anywhere
    int64_t trainer_wait_ns = 0;  // wall time in next()
    int64_t finished_any_ns = 0;  // wall time outside next() with a finished batch standing ready
  };

  /// Threads that have nothing to decode now, as any thread sees it without the lock: that of a consumer who trains isn't one
  /// of them, unless the loader has nothing to do at all.
  int spare_threads() const { return spare_threads_.load(std::memory_order_relaxed); }

  explicit FlowMeter(int threads) : workers_(threads - 1), begin_ns_(now_ns()), last_ns_(begin_ns_) {}

  void batch_begun(int portions) {
    change([&](Levels& now) { now.on_way += portions; });
  }
  /// A batch that was finished isn't: some of it goes its way once more.
  void batch_again(int portions) {
    change([&](Levels& now) { --now.finished, now.on_way += portions; });
  }
  void planning(bool begins) {
    change([&](Levels& now) { now.active += begins ? 1 : -1; });
  }
  void planned() {
    change([&](Levels& now) { ++now.prefault_queue; });
  }
  void prefaulting() {
    change([&](Levels& now) { --now.prefault_queue; });
  }
  void ready() {
    change([&](Levels& now) { --now.on_way, ++now.ready_queue; });
  }
  void work_begins() {
    change([&](Levels& now) { --now.ready_queue, ++now.active; });
  }
  void work_ends() {
    change([&](Levels& now) { --now.active; });
  }
  void batch_finished() {
    change([&](Levels& now) { ++now.finished; });
  }
  void batch_lent() {
    change([&](Levels& now) { --now.finished; });
  }
  /// The trainer's thread, or whoever stands in for it, decodes while it waits.
  void joins(bool begins) {
    change([&](Levels& now) { now.joined = begins; });
  }
  void trainer_waits(bool begins) {
    change([&](Levels& now) { now.trainer_waits = begins; });
  }
  /// After a drain: no portion is anywhere and finished batches were thrown away.
  void reset_levels() {
    change([&](Levels& now) {
      now.on_way = now.prefault_queue = now.ready_queue = now.active = now.finished = 0;
    });
  }
  Totals totals() {
    const MutexLock lock(mutex_);
    advance(now_ns());
    totals_.since_ns = last_ns_ - begin_ns_;
    return totals_;
  }

 private:
  struct Levels {
    int on_way = 0;  // portions between slot and ready queue
    int prefault_queue = 0;
    int ready_queue = 0;
    int active = 0;  // threads in a body
    int finished = 0;
    bool joined = false;
    bool trainer_waits = false;
  };
  template <class Change>
  void change(Change apply) {
    const MutexLock lock(mutex_);
    advance(now_ns());
    apply(levels_);
    const bool is_idle = levels_.active == 0;
    const int spare = levels_.ready_queue > 0 ? 0 : std::max(idle_threads(), is_idle ? 1 : 0);
    spare_threads_.store(spare, std::memory_order_relaxed);
  }
  int idle_threads() const DLPIPE_REQUIRES(mutex_) {
    return std::max(0, workers_ + (levels_.joined ? 1 : 0) - levels_.active);
  }
  void advance(int64_t now) DLPIPE_REQUIRES(mutex_) {
    const int64_t dt = now - last_ns_;
    if (dt <= 0) return;  // another thread read the clock later but came first
    last_ns_ = now;
    const auto weight = static_cast<double>(dt);
    totals_.prefault_queue += weight * levels_.prefault_queue;
    totals_.ready_queue += weight * levels_.ready_queue;
    totals_.finished_batches += weight * levels_.finished;
    totals_.finished_any_ns += levels_.finished > 0 && !levels_.trainer_waits ? dt : 0;
    totals_.trainer_wait_ns += levels_.trainer_waits ? dt : 0;
    if (levels_.ready_queue > 0) return;
    (levels_.on_way > 0 ? totals_.starved_ns : totals_.blocked_ns) += dt * idle_threads();
  }

  Mutex mutex_;
  const int workers_;  // threads that may decode while the trainer trains
  const int64_t begin_ns_;
  int64_t last_ns_ DLPIPE_GUARDED_BY(mutex_);
  Totals totals_ DLPIPE_GUARDED_BY(mutex_);
  Levels levels_ DLPIPE_GUARDED_BY(mutex_);
  std::atomic<int> spare_threads_{0};
};

}  // namespace dlpipe::pipeline
