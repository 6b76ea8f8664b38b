#include "dlpipe/pipeline/plan/stage_counters.h"

#include <numeric>

namespace dlpipe::pipeline {

int64_t StageClock::end_portion() {
  const int64_t total = now_ns() - portion_begin_ns_;
  const int64_t timed = std::accumulate(laps_.begin(), laps_.end(), int64_t{0});
  int64_t rest = total;
  for (const Stage stage : {Stage::kReader, Stage::kSelector, Stage::kAugmenter}) {
    const double share =
        timed == 0 ? 0 : static_cast<double>(laps_[lap_index(stage)]) / static_cast<double>(timed);
    const auto part = static_cast<int64_t>(static_cast<double>(total) * share);
    counters_[stage].busy_ns.add(part);
    rest -= part;
  }
  counters_[Stage::kDecoder].busy_ns.add(rest);
  return total;
}

}  // namespace dlpipe::pipeline
