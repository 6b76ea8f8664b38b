// Threads that create coefficient records for a linked dataset's cache (io/data/coefficient_cache.h) while the loader's own
// threads are idle: while every slot is full, or while portions wait for storage. They have the system's lowest priority
// (SCHED_IDLE), so that training on the same cores comes first, and share no lock with other threads.
//
// Owns as many threads as the loader; as many of them work as the loader's are idle. Created and destroyed by one thread; other
// functions may be called from any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "dlpipe/stats.h"
#include "io/data/coefficient_cache.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/stage_counters.h"

namespace dlpipe::pipeline {

class CacheFiller {
 public:
  /// The cache requested by setup.options; null if there is none.
  static Result<std::unique_ptr<data::CoefficientCache>> open_cache(const Setup& setup);

  /// All arguments must outlive this object.
  static Result<std::unique_ptr<CacheFiller>> start(const Setup& setup, data::CoefficientCache& cache,
                                                    const FlowMeter& meter);
  /// Waits for records in progress: some milliseconds of work.
  ~CacheFiller();
  CacheFiller(const CacheFiller&) = delete;
  CacheFiller& operator=(const CacheFiller&) = delete;

  /// The statistics of the cache, without those that readers count.
  CacheStats stats() const;
  int64_t scratch_bytes() const { return scratch_bytes_.load(std::memory_order_relaxed); }

 private:
  CacheFiller(const Setup& setup, data::CoefficientCache& cache, const FlowMeter& meter,
              std::vector<std::unique_ptr<data::CacheCoder>> coders);
  void run(int index);
  void begin_work();
  /// False if the thread must end.
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
  std::vector<pthread_t> working_ DLPIPE_GUARDED_BY(mutex_);  // used by the destructor before it joins them
  std::unique_ptr<Threads> threads_;
};

}  // namespace dlpipe::pipeline
