// Which stage limited the stream lately: compares two snapshots of the counters, about a second apart.
//
// Any thread; a lock taken once per batch.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "dlpipe/base/mutex.h"
#include "dlpipe/pipeline/graph/flow_meter.h"
#include "dlpipe/pipeline/plan/stage_counters.h"

namespace dlpipe::pipeline {

class Bottleneck {
 public:
  struct Snapshot {
    FlowMeter::Totals flow;
    std::array<int64_t, kStageCount> busy_ns{};
  };
  static Snapshot take(PipelineCounters& counters, FlowMeter& meter);
  /// The stage whose work the trainer waited for between the two; empty when it hardly waited.
  static std::string name(const Snapshot& before, const Snapshot& after);

  /// Called now and then; closes a window when a second has passed since the last.
  void observe(PipelineCounters& counters, FlowMeter& meter);
  /// Of the last whole window, or since the beginning when there is none yet.
  std::string last(PipelineCounters& counters, FlowMeter& meter);

 private:
  Mutex mutex_;
  int64_t window_begin_ns_ DLPIPE_GUARDED_BY(mutex_) = 0;
  Snapshot window_begin_ DLPIPE_GUARDED_BY(mutex_);
  bool has_window_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::string last_ DLPIPE_GUARDED_BY(mutex_);
};

}  // namespace dlpipe::pipeline
