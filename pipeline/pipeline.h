// The parts of a Loader, and the functions through which a batch flows. Internal to the pipeline: loader.h is the public
// interface, pipeline.cpp has the flow in order, loader.cpp everything around it (opening, memory, states, bad records,
// counters).
//
// Numbers that name a batch: `sequence` counts batches over all epochs (epoch * batches_per_epoch + index), so the whole state
// of the stream is the next sequence to be returned, the chain value and the set of bad samples. The consumer calls next,
// state, seek and grow; any thread may call release, interrupt and stats; credit comes from the thread that frees a slot (by
// releasing it, or a device's callback thread); the stages run on the pool's threads.
//
// Locks, the outer one first: lend_mutex (batches with the consumer), the device stager's, begin_mutex (batches that were
// started). Each is held for a batch's bookkeeping. Nothing waits for the graph, a device or memory under one of them, because
// release() may be called from a destructor whose thread holds something that a worker waits for, such as Python's interpreter
// lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <queue>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/batch.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "pipeline/cache_filler.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/slot.h"
#include "pipeline/plan/stage_counters.h"
#include "pipeline/stages/batch.h"
#include "pipeline/stages/prefault.h"
#include "pipeline/stages/sample_worker.h"

namespace dlpipe::pipeline {

/// Whether the calling thread is decoding for the loader that was opened with `setup` (null: for any loader),
/// as it does while it runs an augmentation. Such a thread must not wait for that loader. Any thread.
bool is_decoding_for(const Setup* setup);

/// Portions waiting for a stage. Those of the oldest batch come first, so that the batch that the trainer needs next is
/// finished next.
///
/// A lock held for nanoseconds, once per portion (a portion is about half a millisecond of work); any thread may push and pop.
/// wait_pop blocks its caller: only the prefault thread, which is not a TBB worker, calls it.
class PortionQueue {
 public:
  void push(const Portion& portion) {
    {
      const MutexLock lock(mutex_);
      waiting_.push(portion);
    }
    filled_.notify_one();
  }
  /// False when empty.
  bool try_pop(Portion* portion) {
    const MutexLock lock(mutex_);
    return pop(portion);
  }
  /// Waits for a portion; false once closed and empty.
  bool wait_pop(Portion* portion) {
    MutexLock lock(mutex_);
    while (waiting_.empty() && !closed_) lock.wait(filled_);
    return pop(portion);
  }
  /// Lets wait_pop return; remaining portions are still returned.
  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    filled_.notify_all();
  }

 private:
  struct IsLater {
    bool operator()(const Portion& a, const Portion& b) const {
      return a.sequence != b.sequence ? a.sequence > b.sequence : a.first > b.first;
    }
  };
  bool pop(Portion* portion) DLPIPE_REQUIRES(mutex_) {
    if (waiting_.empty()) return false;
    *portion = waiting_.top();
    waiting_.pop();
    return true;
  }

  Mutex mutex_;
  std::condition_variable filled_;
  std::priority_queue<Portion, std::vector<Portion>, IsLater> waiting_ DLPIPE_GUARDED_BY(mutex_);
  bool closed_ DLPIPE_GUARDED_BY(mutex_) = false;
};

/// Keeps track of bad records: which distinct samples were substituted or dropped, the quarantine file, and the limit.
///
/// Belongs to the consumer's thread: batches are recorded in the order in which they are returned, so that the result does not
/// depend on threads.
class BadRecords {
 public:
  /// `data`: the dataset, for messages.
  BadRecords(int64_t max_bad, std::string quarantine_file, std::string data)
      : max_bad_(max_bad), quarantine_file_(std::move(quarantine_file)), data_(std::move(data)) {}

  /// Records a returned batch's bad samples: one line per sample in the quarantine file. kCorrupt once more than max_bad
  /// distinct samples are bad; kIo and similar if the file can't be written.
  Status book(int64_t epoch, std::span<const Substitution> substitutions);
  /// Rejects an existing quarantine file that is not a regular file.
  Status check_file() const;
  /// Distinct samples, ascending: a part of the source's state.
  std::vector<int64_t> samples() const { return {samples_.begin(), samples_.end()}; }
  int64_t count() const { return static_cast<int64_t>(samples_.size()); }
  void restore(std::span<const int64_t> samples) { samples_ = {samples.begin(), samples.end()}; }

 private:
  Status append(int64_t epoch, const Substitution& bad);
  Status read_listed();

  int64_t max_bad_;
  std::string quarantine_file_;
  std::string data_;
  std::set<int64_t> samples_;
  std::set<int64_t> listed_;  // already in the file, from this run or the one that it resumes
  bool read_listed_ = false;
};

struct Loader::Flow {
  explicit Flow(std::shared_ptr<const Setup> setup_in);
  ~Flow();
  /// Opens files, allocates slots, starts threads and the first batches.
  Status open();

  // --- the flow, in its order: pipeline.cpp

  struct Graph;
  void start_graph();

  /// Starts batches in the free slots, as many as may be in flight.
  void begin_batches() DLPIPE_REQUIRES(begin_mutex);
  void begin_batch(Slot& slot) DLPIPE_REQUIRES(begin_mutex);
  int32_t portion_samples(int64_t count) const;
  // Called by the graph's nodes. Any thread of the pool, many at once, except prefault(): only the prefault thread.
  void plan(Portion& portion) noexcept;
  void prefault(Portion& portion) noexcept;
  /// `worker` is a number below worker_count() that no other thread uses meanwhile.
  void work(Portion& portion, int worker) noexcept;
  /// True if this was the slot's last portion.
  bool batch(const Portion& portion) noexcept;
  /// The slot's batch is complete. Opens its gate, now or later.
  void stage(const Portion& portion) noexcept;
  /// The device found a slot's tiles corrupt where the status is not 0: those places go through the graph again.
  void again(int32_t slot, std::span<const int32_t> statuses);
  /// The batch may be returned to the consumer. Any thread.
  void open_gate(int64_t sequence);
  void wait_for(int64_t sequence);
  Status book(Batch& batch) DLPIPE_REQUIRES(lend_mutex);
  Status book(int64_t epoch, std::span<const Substitution> substitutions);
  /// A slot is free: starts the next batch in it.
  void credit(int32_t slot);

  /// Afterwards no portion is in the graph. The stager resets what is staged or being copied.
  void stop();
  void restart(int64_t sequence) DLPIPE_REQUIRES(lend_mutex);
  bool passes_on() const { return stopping.load(std::memory_order_relaxed) || interrupted; }
  static int worker_count(int threads) { return threads + 1; }

  // --- around it: loader.cpp

  /// kOutOfMemory if `count` slots do not fit below the ceiling of --memory.
  Status check_memory(int64_t count) const;
  /// kOutOfMemory if one more slot would use more than half of the memory, for a consumer that keeps batches.
  Status check_kept() const;
  Status check_state(const SourceState& state) const;
  Status move_to(int64_t sequence);

  const std::shared_ptr<const Setup> setup;
  const Planner planner;
  ChecksumState checksums;
  PipelineCounters counters;
  FlowMeter meter;
  Bottleneck bottleneck;
  BadRecords bad;
  std::unique_ptr<data::CoefficientCache> cache;  // null: there is none
  std::unique_ptr<MappedFile> file;
  std::unique_ptr<data::Dataset::Reader> prefault_reader;
  std::unique_ptr<Prefault> prefaulter;  // the prefault thread's
  int64_t resident_before = 0;           // of the process, without slots, scratch and pages
  Slots slots;
  std::vector<std::unique_ptr<SampleWorker>> workers;
  std::unique_ptr<Stager> stager DLPIPE_POINTEE_GUARDED_BY(lend_mutex);
  Stager* unlocked_stager = nullptr;  // the same one, for stage(), grow() and reset(), which need no lock
  std::unique_ptr<Graph> graph;
  std::unique_ptr<CacheFiller> filler;  // if there is a cache

  std::atomic<bool> stopping{true};  // stages pass portions on without work; set under begin_mutex
  std::atomic<bool> interrupted{
      false};                         // the same, but batches still arrive, so that no waiter blocks forever
  std::atomic<bool> has_news{false};  // note_consumer() was called
  std::atomic<double> sample_ns{0};  // measured cost of a sample in work(): tunes portion sizes, nothing else
  Mutex begin_mutex;
  int64_t next_begin DLPIPE_GUARDED_BY(begin_mutex) = 0;  // sequence of the next batch to start
  /// Sequence of the first batch that may not be in flight yet.
  int64_t end_in_flight DLPIPE_GUARDED_BY(begin_mutex) = 0;
  std::vector<int32_t> free_slots DLPIPE_GUARDED_BY(begin_mutex);

  Mutex lend_mutex;

  // The consumer's.
  int64_t next_lend = 0;         // sequence of the next batch to be returned
  int64_t end = 0;               // sequence after the last epoch
  int64_t grown = 0;             // slots, or a device's twins, that grow() has added
  std::vector<uint64_t> chains;  // of this rank's grains
  Status ended;                  // why the stream can't continue
  std::atomic<int64_t> lent_batches{0};
  std::atomic<int64_t> lent_samples{0};
  std::atomic<int64_t> bad_count{0};
};

}  // namespace dlpipe::pipeline
