// Threads that make coefficient records for a linked dataset's cache (io/data/coefficient_cache.h) in time that the loader's
// own threads don't use: while every slot is full, or while portions wait for storage. They have the system's lowest priority
// (SCHED_IDLE), so that whoever trains on the same cores comes first, and share no lock with other threads.
//
// Owns its threads: as many as the loader's, of which as many work as the loader's have nothing to do. Made and destroyed by
// one thread; the rest may be called from any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/counter.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/threads.h"
#include "dlpipe/io/data/cache_coder.h"
#include "dlpipe/pipeline/graph/flow_meter.h"
#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

class CacheFiller {
 public:
  /// The cache that setup.options asks for; null where it asks for none.
  static Result<std::unique_ptr<data::CoefficientCache>> open_cache(const Setup& setup);

  /// All must outlive this object.
  static Result<std::unique_ptr<CacheFiller>> start(const Setup& setup, data::CoefficientCache& cache,
                                                    const FlowMeter& meter);
  /// Waits for records that are being made: some milliseconds of work.
  ~CacheFiller();
  CacheFiller(const CacheFiller&) = delete;
  CacheFiller& operator=(const CacheFiller&) = delete;

  /// All of stats but what readers know.
  CacheStats stats() const;
  int64_t scratch_bytes() const { return scratch_bytes_.load(std::memory_order_relaxed); }

 private:
  CacheFiller(const Setup& setup, data::CoefficientCache& cache, const FlowMeter& meter,
              std::vector<std::unique_ptr<data::CacheCoder>> coders);
  void run(int index);
  void begin_work();
  /// False where the thread has to end.
  bool pause(int milliseconds);

  const Setup& setup_;
  data::CoefficientCache& cache_;
  const FlowMeter& meter_;
  std::vector<std::unique_ptr<data::CacheCoder>> coders_;
  Counter unfit_;
  Counter busy_ns_;
  std::atomic<int64_t> scratch_bytes_{0};
  Mutex mutex_;
  std::condition_variable told_;
  bool ends_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::vector<pthread_t> working_ DLPIPE_GUARDED_BY(mutex_);  // joined later than it is read
  std::unique_ptr<Threads> threads_;
};

}  // namespace dlpipe::pipeline
