// One thread's set of stages: takes a planned portion of samples from record to slot, and finds stand-ins for bad
// records.
//
// An object belongs to one thread at a time; the graph gives each thread of its pool one. process never
// throws and never blocks, except where a substitute's record must be read from disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/graph/portion_queue.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"
#include "dlpipe/pipeline/plan/stage_counters.h"
#include "dlpipe/pipeline/stages/augmenter.h"
#include "dlpipe/pipeline/stages/box_planner.h"
#include "dlpipe/pipeline/stages/decoder.h"
#include "dlpipe/pipeline/stages/field_mover.h"
#include "dlpipe/pipeline/stages/mapped_file.h"
#include "dlpipe/pipeline/stages/prefault.h"
#include "dlpipe/pipeline/stages/reader.h"
#include "dlpipe/pipeline/stages/tile_sender.h"

namespace dlpipe::pipeline {

/// What all workers of a loader share.
struct WorkerShared {
  const Setup& setup;
  const Planner& planner;
  const MappedFile& file;
  ChecksumState& checksums;
  PipelineCounters& counters;
  data::CoefficientCache* cache = nullptr;
};

class SampleWorker {
 public:
  static Result<std::unique_ptr<SampleWorker>> create(const WorkerShared& shared);

  /// Fills the portion's samples of `slot`; errors go into the slot. Answers the time it took in nanoseconds.
  /// `expected_sample_ns` only tunes how often the clock is read.
  int64_t process(Slot& slot, const Portion& portion, double expected_sample_ns) noexcept;
  /// Bytes of scratch held between portions; any thread.
  int64_t scratch_bytes() const { return scratch_bytes_.load(std::memory_order_relaxed); }

  static constexpr int32_t kMaxAttempts = 8;  // substitutes tried for one position

 private:
  SampleWorker(const WorkerShared& shared, std::unique_ptr<data::Dataset::Reader> reader);
  Status do_sample(Slot& slot, int64_t i);
  /// *at_fault: which of the plan's records is bad, where one is.
  Status produce(SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault);
  Status produce_picture(const SamplePlan& plan, std::span<const std::byte> record, Slot& slot, int64_t i);
  Status produce_joined(const SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault);
  /// False: the host has to decode it.
  bool send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i);
  Status replace(Slot& slot, int64_t i, size_t at_fault, Status reason);
  void drop(Slot& slot, int64_t i, size_t at_fault, const Status& reason);
  /// Where the picture's bytes are made: in the slot, or here.
  ImageView image(const Slot& slot, int64_t i);
  void finish_sample(const SamplePlan& plan, Slot& slot, int64_t i);

  WorkerShared shared_;
  std::unique_ptr<data::Dataset::Reader> dataset_reader_;
  Prefault prefault_;
  RecordReader reader_;
  BoxPlanner box_planner_;
  std::unique_ptr<TileSender> sender_;  // null: the host decodes everything
  RegionDecoder decoder_;
  Augmenter augmenter_;
  FieldMover fields_;
  StageClock clock_;
  SamplePlan substitute_;
  std::vector<uint8_t> bytes_;  // of one picture, where it becomes numbers at once
  // Of the portion at hand:
  bool on_host_ = false;
  int64_t read_bytes_ = 0;
  int64_t from_cache_ = 0;  // records, of all portions
  int64_t sent_ = 0;        // samples
  int64_t sent_bytes_ = 0;
  int64_t decoded_bytes_ = 0;
  std::atomic<int64_t> scratch_bytes_{0};
};

/// A record that can't be used, as against a run that can't go on: damaged or unsupported bytes repeat, I/O
/// errors and wrong calls don't stand for the record.
bool is_bad_record(const Status& status);

}  // namespace dlpipe::pipeline
