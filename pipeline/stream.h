// The loader itself: joins sampler, slots, stages and graph into an endless stream of batches.
//
// Numbers that name a batch: `sequence` counts batches over all epochs (epoch * batches_per_epoch + index),
// so the whole state of the stream is the sequence to be lent next, the chain value and the set of bad
// samples. next, state, seek and grow are the consumer's; release, interrupt and stats anybody's; credit comes
// from whoever frees a slot (who releases, or a device's callback thread); the graph's bodies run on the pool's
// threads.
//
// Locks, the outer one first: lend_mutex_ (what is lent), the device stager's, inject_mutex_ (what is begun). Each
// is held for a batch's bookkeeping. Nothing waits for the graph, a device or memory under one of them: release() may come
// from a destructor whose thread holds what a worker waits for, such as Python's interpreter lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/pipeline/bad_records.h"
#include "dlpipe/pipeline/bottleneck.h"
#include "dlpipe/pipeline/cache_filler.h"
#include "dlpipe/pipeline/graph/flow_meter.h"
#include "dlpipe/pipeline/graph/graph.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"
#include "dlpipe/pipeline/plan/stage_counters.h"
#include "dlpipe/pipeline/sample_worker.h"
#include "dlpipe/pipeline/scratch_plan.h"
#include "dlpipe/pipeline/stages/mapped_file.h"
#include "dlpipe/pipeline/stages/prefault.h"
#include "dlpipe/pipeline/stages/reader.h"
#include "dlpipe/pipeline/stages/stager.h"

namespace dlpipe::pipeline {

/// Whether the calling thread is decoding for the stream that was opened with `setup` (null: for any), as an augmentation is: it
/// must not wait for that stream. Any thread.
bool is_decoding_for(const Setup* setup);

class BatchStream final : public Loader, private GraphBodies {
 public:
  static Result<std::unique_ptr<Loader>> create(std::shared_ptr<const Setup> setup);
  ~BatchStream() override;

  std::span<const FieldSpec> schema() const override { return setup_->schema; }
  int64_t batches_per_epoch() const override { return setup_->sampler.batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return setup_->sampler.samples_per_epoch(); }
  Result<std::optional<Batch>> next() override;
  Status release(const Batch& batch, Stream* stream) override;
  SourceState state() const override;
  Status seek(const SourceState& state) override;
  SourceStats stats() const override;

  const data::Dataset& dataset() const override { return *setup_->dataset; }
  const std::string& pipeline_id() const override { return setup_->pipeline_id; }
  std::string subset() const override { return setup_->sampler.options().subset.to_string(); }
  int threads() const override { return setup_->options.threads; }
  int64_t planned_scratch_bytes() const override { return pipeline::planned_scratch_bytes(*setup_); }
  const std::string& decode_reason() const override { return setup_->device_decode.reason; }
  Status grow() override;
  int64_t lendable() const override;
  int64_t lendable_max() const override;
  void interrupt() override { interrupted_ = true; }
  Status seek_epoch(int64_t epoch) override;
  void note_consumer(ConsumerNews news) override;
  Status book(int64_t epoch, std::span<const Substitution> substitutions) override;

 private:
  explicit BatchStream(std::shared_ptr<const Setup> setup);
  Status prepare();

  // The graph's bodies.
  void plan(Portion& portion) noexcept override;
  void prefault(Portion& portion) noexcept override;
  void work(Portion& portion, int worker) noexcept override;
  bool batch(const Portion& portion) noexcept override;
  void stage(const Portion& portion) noexcept override;

  /// A slot is free: begins the next batch in it.
  void credit(int32_t slot);
  /// The device found a slot's tiles damaged where the status isn't 0: those places go through the graph
  /// again.
  void again(int32_t slot, std::span<const int32_t> statuses);
  /// Begins batches in the slots that are free, as many as may be in flight.
  void begin_batches() DLPIPE_REQUIRES(inject_mutex_);
  void begin_batch(Slot& slot) DLPIPE_REQUIRES(inject_mutex_);
  int32_t portion_samples(int64_t count) const;
  /// kOutOfMemory where `slots` of them don't fit the ceiling of --memory.
  Status check_memory(int64_t slots) const;
  /// The same where one more batch than half of the memory holds would be kept.
  Status check_kept() const;
  void wait_for(int64_t sequence);
  Status book(Batch& batch) DLPIPE_REQUIRES(lend_mutex_);
  Status check_state(const SourceState& state) const;
  bool passes_on() const { return stopping_.load(std::memory_order_relaxed) || interrupted_; }
  void stop();
  void restart(int64_t sequence) DLPIPE_REQUIRES(lend_mutex_);
  Status move_to(int64_t sequence);

  const std::shared_ptr<const Setup> setup_;
  const Planner planner_;
  ChecksumState checksums_;
  mutable PipelineCounters counters_;
  mutable FlowMeter meter_;
  mutable Bottleneck bottleneck_;
  BadRecords bad_;
  std::unique_ptr<data::CoefficientCache> cache_;  // null: there is none
  std::unique_ptr<MappedFile> file_;
  std::unique_ptr<data::Dataset::Reader> prefault_reader_;
  std::unique_ptr<Prefault> prefault_;  // the prefault thread's
  int64_t resident_before_ = 0;         // of the process, without slots, scratch and pages
  Slots slots_;
  std::vector<std::unique_ptr<SampleWorker>> workers_;
  std::unique_ptr<Stager> stager_ DLPIPE_POINTEE_GUARDED_BY(lend_mutex_);
  Stager* unlocked_stager_ = nullptr;  // the same one, for stage(), grow() and reset(), which need no lock
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<CacheFiller> filler_;  // where there is a cache

  std::atomic<bool> stopping_{true};      // bodies pass portions on without work; set under inject_mutex_
  std::atomic<bool> interrupted_{false};  // the same, but batches still arrive, so that nobody waits in vain
  std::atomic<bool> has_news_{false};     // note_consumer() was called
  std::atomic<double> sample_ns_{
      0};  // measured cost of a sample in work(): tunes portion sizes, nothing else
  Mutex inject_mutex_;
  int64_t next_begin_ DLPIPE_GUARDED_BY(inject_mutex_) = 0;  // sequence of the batch to be begun next
  int64_t end_in_flight_ DLPIPE_GUARDED_BY(inject_mutex_) =
      0;  // and of the first that is not to be in flight yet
  std::vector<int32_t> free_ DLPIPE_GUARDED_BY(inject_mutex_);  // slots

  mutable Mutex lend_mutex_;

  // The consumer's.
  int64_t next_lend_ = 0;         // sequence of the batch to be lent next
  int64_t end_ = 0;               // sequence after the last epoch
  int64_t grown_ = 0;             // slots, or a device's twins, since the beginning
  std::vector<uint64_t> chains_;  // of this rank's grains
  Status ended_;                  // why the stream can't go on
  std::atomic<int64_t> lent_batches_{0};
  std::atomic<int64_t> lent_samples_{0};
  std::atomic<int64_t> bad_count_{0};
};

}  // namespace dlpipe::pipeline
