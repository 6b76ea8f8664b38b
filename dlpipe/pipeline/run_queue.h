// Runs waiting for a stage, the oldest batch's first, so that the batch the trainer needs next is finished
// next.
//
// A lock held for nanoseconds, once a run (a run is about half a millisecond of work); any thread may push
// and pop. wait_pop blocks its caller: only the prefault thread, which is no TBB worker, calls it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace dlpipe::pipeline {

/// The message of the graph: some samples of one slot. A handle: pixels never travel.
struct Run {
  int64_t sequence = 0;  // of the batch, over all epochs
  int32_t slot = 0;
  int32_t first = 0;  // of the batch's samples
  int32_t count = 0;
  bool on_host = false;  // decoded there, whoever decodes the others
  bool failed = false;   // its error stands in the slot; later stages pass it on
};

class RunQueue {
 public:
  void push(const Run& run);
  /// False when empty.
  bool try_pop(Run* run);
  /// Waits for a run; false once closed and empty.
  bool wait_pop(Run* run);
  /// Lets wait_pop return; runs already there are still given out.
  void close();

 private:
  void pop_locked(Run* run);

  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Run> heap_;
  bool closed_ = false;
};

}  // namespace dlpipe::pipeline
