// The loader's counters: the stages' work (PipelineCounters, split among stages by a StageClock), where portions and batches
// are over time (FlowMeter), and which stage limited the stream recently (Bottleneck).
//
// All may be called from any thread, except a StageClock, which belongs to one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/mutex.h"

namespace dlpipe::pipeline {

/// kSelector: replaces decoder and augmenter if the device decodes.
enum class Stage : uint8_t { kPlan, kPrefault, kReader, kSelector, kDecoder, kAugmenter, kBatcher, kStager };
inline constexpr auto kStageNames = std::to_array<std::string_view>(
    {"plan", "prefault", "reader", "selector", "decoder", "augmenter", "batcher", "stager"});
inline constexpr int kStageCount = static_cast<int>(kStageNames.size());
static_assert(static_cast<int>(Stage::kStager) == kStageCount - 1, "each stage has its name, at its place");
inline std::string_view stage_name(Stage stage) {
  return kStageNames[static_cast<size_t>(stage)];
}

class PipelineCounters {
 public:
  StageCounters& operator[](Stage stage) { return stages_[static_cast<size_t>(stage)]; }
  Counter from_cache;  // records that the reader read from a cache

 private:
  std::array<StageCounters, kStageCount> stages_;
};

/// Charges a portion's time to reader, selector, decoder and augmenter. The portion's total is exact (two clock reads); if
/// samples are so cheap that reading the clock at every boundary would cost more than half a percent, only every n-th sample's
/// boundaries are read and the total is split in their proportion.
class StageClock {
 public:
  explicit StageClock(PipelineCounters& counters) : counters_(counters) {}

  void begin_portion(double expected_sample_ns) {
    constexpr double kClockNs = 120;  // four reads of the clock, each about 30 ns
    stride_ = expected_sample_ns <= 0 ? 1 : static_cast<int>(200 * kClockNs / expected_sample_ns) + 1;
    laps_ = {};
    sample_ = 0;
    portion_begin_ns_ = now_ns();
  }
  void begin_sample() {
    timed_ = sample_++ % stride_ == 0;
    if (timed_) lap_begin_ns_ = now_ns();
  }
  /// Charges the time since the last lap, or since the sample's start, to `stage`.
  void lap(Stage stage) {
    if (!timed_) return;
    const int64_t now = now_ns();
    laps_[lap_index(stage)] += now - lap_begin_ns_;
    lap_begin_ns_ = now;
  }
  /// Adds the portion's time to the counters and returns it.
  int64_t end_portion();

 private:
  static size_t lap_index(Stage stage) {
    return static_cast<size_t>(stage) - static_cast<size_t>(Stage::kReader);
  }

  PipelineCounters& counters_;
  int stride_ = 1;
  int64_t sample_ = 0;
  bool timed_ = false;
  int64_t portion_begin_ns_ = 0;
  int64_t lap_begin_ns_ = 0;
  std::array<int64_t, 4> laps_{};
};

/// Where portions and batches are, integrated over time: how full each edge is, and why threads were idle.
///
/// Called once or twice per portion, from any thread; a lock held for some nanoseconds. Times are thread-seconds: a
/// thread counts as idle while it could have decoded and no portion was ready. It then waited for input if a portion
/// was on its way (storage is slow), and for output if there was none (every slot is full: the trainer is
/// slow). The trainer's thread is counted only while it waits in next().
class FlowMeter {
 public:
  struct Totals {
    int64_t since_ns = 0;         // wall time integrated over
    double prefault_queue = 0;    // portion-nanoseconds of waiting for the prefault thread
    double ready_queue = 0;       // portion-nanoseconds of waiting for a decoding thread
    double finished_batches = 0;  // batch-nanoseconds of waiting for the trainer
    int64_t starved_ns = 0;       // thread-nanoseconds idle while a portion was on its way
    int64_t blocked_ns = 0;       // thread-nanoseconds idle without a portion anywhere
    int64_t trainer_wait_ns = 0;  // wall time in next()
    int64_t finished_any_ns = 0;  // wall time outside next() with a finished batch ready
  };

  /// The number of threads that have nothing to decode now, read without the lock. A consumer's thread that
  /// is training does not count, unless the loader is completely idle.
  int spare_threads() const { return spare_threads_.load(std::memory_order_relaxed); }

  explicit FlowMeter(int threads) : workers_(threads - 1), begin_ns_(now_ns()), last_ns_(begin_ns_) {}

  void batch_begun(int portions) {
    change([&](Levels& now) { now.on_way += portions; });
  }
  /// A finished batch is unfinished again, because part of it is processed again.
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
  /// The trainer's thread, or its substitute, decodes while it waits.
  void joins(bool begins) {
    change([&](Levels& now) { now.joined = begins; });
  }
  void trainer_waits(bool begins) {
    change([&](Levels& now) { now.trainer_waits = begins; });
  }
  /// After a drain: there are no portions, and finished batches were discarded.
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
    int active = 0;  // threads that run a stage
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

/// Which stage limited the stream recently: compares two snapshots of the counters, about a second apart.
///
/// Any thread; a lock taken once per batch.
class Bottleneck {
 public:
  struct Snapshot {
    FlowMeter::Totals flow;
    std::array<int64_t, kStageCount> busy_ns{};
  };
  static Snapshot take(PipelineCounters& counters, FlowMeter& meter);
  /// The stage whose work the trainer waited for between the two; empty when it hardly waited.
  static std::string name(const Snapshot& before, const Snapshot& after);

  /// Called regularly; closes a window if a second has passed since the last.
  void observe(PipelineCounters& counters, FlowMeter& meter);
  /// For the last complete window, or since the start if there is none yet.
  std::string last(PipelineCounters& counters, FlowMeter& meter);

 private:
  Mutex mutex_;
  int64_t window_begin_ns_ DLPIPE_GUARDED_BY(mutex_) = 0;
  Snapshot window_begin_ DLPIPE_GUARDED_BY(mutex_);
  bool has_window_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::string last_ DLPIPE_GUARDED_BY(mutex_);
};

}  // namespace dlpipe::pipeline
