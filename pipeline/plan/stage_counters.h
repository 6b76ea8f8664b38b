// The counters of all stages, and how the time of a portion is split among the stages it went through.
//
// Counters may be written from any thread. A StageClock belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dlpipe/base/counter.h"

namespace dlpipe::pipeline {

/// kSelector: where the device decodes, in the place of decoder and augmenter.
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
  Counter from_cache;  // records that the reader took from a cache

 private:
  std::array<StageCounters, kStageCount> stages_;
};

/// Charges a portion's time to reader, selector, decoder and augmenter. The portion's total is exact (two clock
/// reads); where samples are so cheap that a clock read at every border would cost over half a per cent of
/// them, only every n-th sample's borders are read and the total is split in their proportion.
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
  /// The time since the last lap or the sample's begin was `stage`'s.
  void lap(Stage stage) {
    if (!timed_) return;
    const int64_t now = now_ns();
    laps_[lap_index(stage)] += now - lap_begin_ns_;
    lap_begin_ns_ = now;
  }
  /// Adds the portion's time to the counters and answers it.
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

}  // namespace dlpipe::pipeline
