// Portions waiting for a stage, the oldest batch's first, so that the batch the trainer needs next is finished
// next.
//
// A lock held for nanoseconds, once per portion (a portion is about half a millisecond of work); any thread may push
// and pop. wait_pop blocks its caller: only the prefault thread, which is no TBB worker, calls it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <vector>

#include "dlpipe/base/mutex.h"

namespace dlpipe::pipeline {

/// The message of the graph: some samples of one slot. A handle: pixels never travel.
struct Portion {
  int64_t sequence = 0;  // of the batch, over all epochs
  int32_t slot = 0;
  int32_t first = 0;  // of the batch's samples
  int32_t count = 0;
  bool on_host = false;  // decoded there, whoever decodes the others
  bool failed = false;   // its error stands in the slot; later stages pass it on
};

class PortionQueue {
 public:
  void push(const Portion& portion);
  /// False when empty.
  bool try_pop(Portion* portion);
  /// Waits for a portion; false once closed and empty.
  bool wait_pop(Portion* portion);
  /// Lets wait_pop return; portions already there are still given out.
  void close();

 private:
  void take_first(Portion* portion) DLPIPE_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable filled_;
  std::vector<Portion> heap_ DLPIPE_GUARDED_BY(mutex_);
  bool closed_ DLPIPE_GUARDED_BY(mutex_) = false;
};

}  // namespace dlpipe::pipeline
