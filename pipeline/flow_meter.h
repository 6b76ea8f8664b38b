// Where portions and batches stand, integrated over time: how full each edge is, and why threads had nothing to
// do.
//
// Called once or twice per portion, from any thread; a lock held for some nanoseconds. Times are thread-seconds: a
// thread counts as idle while it could have decoded and no portion was ready. It then waited for input if a portion
// was on its way (storage is slow), and for output if there was none (every slot is full: the trainer is
// slow). The trainer's thread is counted only while it waits in next().
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "dlpipe/base/counter.h"

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

  explicit FlowMeter(int threads) : workers_(threads - 1), begin_ns_(now_ns()), last_ns_(begin_ns_) {}

  void batch_begun(int portions) {
    change([&] { on_way_ += portions; });
  }
  /// A batch that was finished isn't: some of it goes its way once more.
  void batch_again(int portions) {
    change([&] { --finished_, on_way_ += portions; });
  }
  void planning(bool begins) {
    change([&] { active_ += begins ? 1 : -1; });
  }
  void planned() {
    change([&] { ++prefault_queue_; });
  }
  void prefaulting() {
    change([&] { --prefault_queue_; });
  }
  void ready() {
    change([&] { --on_way_, ++ready_queue_; });
  }
  void work_begins() {
    change([&] { --ready_queue_, ++active_; });
  }
  void work_ends() {
    change([&] { --active_; });
  }
  void batch_finished() {
    change([&] { ++finished_; });
  }
  void batch_lent() {
    change([&] { --finished_; });
  }
  /// The trainer's thread, or whoever stands in for it, decodes while it waits.
  void joins(bool begins) {
    change([&] { joined_ = begins; });
  }
  void trainer_waits(bool begins) {
    change([&] { trainer_waits_ = begins; });
  }
  /// After a drain: no portion is anywhere and finished batches were thrown away.
  void reset_levels() {
    change([&] { on_way_ = prefault_queue_ = ready_queue_ = active_ = finished_ = 0; });
  }
  Totals totals() {
    const std::lock_guard lock(mutex_);
    advance(now_ns());
    totals_.since_ns = last_ns_ - begin_ns_;
    return totals_;
  }

 private:
  template <class Change>
  void change(Change apply) {
    const std::lock_guard lock(mutex_);
    advance(now_ns());
    apply();
  }
  void advance(int64_t now) {
    const int64_t dt = now - last_ns_;
    if (dt <= 0) return;  // another thread read the clock later but came first
    last_ns_ = now;
    const auto weight = static_cast<double>(dt);
    totals_.prefault_queue += weight * prefault_queue_;
    totals_.ready_queue += weight * ready_queue_;
    totals_.finished_batches += weight * finished_;
    totals_.finished_any_ns += finished_ > 0 && !trainer_waits_ ? dt : 0;
    totals_.trainer_wait_ns += trainer_waits_ ? dt : 0;
    if (ready_queue_ > 0) return;
    const int idle = std::max(0, workers_ + (joined_ ? 1 : 0) - active_);
    (on_way_ > 0 ? totals_.starved_ns : totals_.blocked_ns) += dt * idle;
  }

  std::mutex mutex_;
  int workers_;  // threads that may decode while the trainer trains
  int64_t begin_ns_;
  int64_t last_ns_;
  Totals totals_;
  int on_way_ = 0;  // portions between slot and ready queue
  int prefault_queue_ = 0;
  int ready_queue_ = 0;
  int active_ = 0;  // threads in a body
  int finished_ = 0;
  bool joined_ = false;
  bool trainer_waits_ = false;
};

}  // namespace dlpipe::pipeline
