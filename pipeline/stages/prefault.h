// The stage "prefault": brings the planned records' pages into memory, so that no later stage meets a page fault, and so
// that an unreadable disk is an error with a message.
//
// An object belongs to one thread: the prefault thread has one, and every worker has one for substitutes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/stage_counters.h"
#include "dlpipe/pipeline/stages/mapped_file.h"
#include "dlpipe/pipeline/stages/page_window.h"

namespace dlpipe::pipeline {

class Prefault {
 public:
  /// All must outlive this object.
  Prefault(const Setup& setup, const MappedFile& file, data::Dataset::Reader& reader,
           PipelineCounters& counters);

  /// After it every record of `plans` can be read from the map, at plan.stored. I/O errors are tried again
  /// (kTries times in all, after 10, 40 and 160 ms); then the error names sample, file and offset, and
  /// *failed is its plan. Counts bytes; time is the caller's to count, who may be a worker.
  Status touch(std::span<SamplePlan> plans, size_t* failed);
  /// Where a ceiling is set: before touch(), for plans of batch `sequence`, when batches before `live` are
  /// over and the file may take `most_bytes` beside all else.
  void make_room(std::span<SamplePlan> plans, int64_t sequence, int64_t live, int64_t most_bytes);
  /// All batches so far are over, and sequences may go back. While nobody else uses this object.
  void start_again() { window_.all_over(); }

  static constexpr int kTries = 4;

 private:
  Status locate(std::span<SamplePlan> plans, size_t* failed);
  Status touch_one(const PlannedRecord& record);
  Status touch_once(const PlannedRecord& record);
  void keep_below_ceiling();
  Status touch_granules(std::span<const std::byte> stored);

  const Setup& setup_;
  const MappedFile& file_;
  data::Dataset::Reader& reader_;
  StageCounters& counters_;
  // A file that fits memory well is touched by granules, and again only after a while: small records would
  // otherwise cost a system call each. Empty: every record is touched by itself.
  std::vector<int64_t> granule_touched_ns_;
  int64_t portion_begin_ns_ = 0;  // one clock read per portion
  PageWindow window_;
};

}  // namespace dlpipe::pipeline
