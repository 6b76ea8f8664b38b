// A batch under construction: its memory, allocated once, and what is known of each of its samples.
//
// The loader owns the slots. One thread begins a slot; then many stages write it at once, each run to its own
// samples; the batcher's countdown hands it on, and from then it belongs to the stager and the consumer. The
// lock is taken only for a bad sample or an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/buffer.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/pipeline/plan.h"
#include "dlpipe/pipeline/sampler.h"
#include "dlpipe/pipeline/setup.h"

namespace dlpipe::pipeline {

/// What a batch carries beside its fields. On a device it moves on with the pixels, so that the slot is free.
struct BatchMeta {
  int64_t sequence = 0;
  BatchRange range;
  std::vector<float> weight;        // [capacity]
  std::vector<int64_t> sample_ids;  // [capacity]
  std::vector<Substitution> substitutions;
  BatchPrep prep;
  uint64_t hash = 0;  // over the batch's checksums and draws alone
  Status error;       // of the sample that stands first in the batch

  explicit BatchMeta(const Setup& setup);
  void begin(int64_t batch_sequence, const BatchRange& batch_range);
};

/// One block of memory with every field of a batch in it, the samples' weights and how they are mixed, so
/// that one copy moves all.
class BatchMemory {
 public:
  static Result<BatchMemory> allocate(const Setup& setup, Buffer::Memory kind);
  std::byte* field(int index) const { return buffer_.data() + offsets_[static_cast<size_t>(index)]; }
  float* weight() const { return reinterpret_cast<float*>(buffer_.data() + weight_offset_); }
  /// Null where nothing is mixed.
  SampleMix* mixes() const {
    return mixes_offset_ > 0 ? reinterpret_cast<SampleMix*>(buffer_.data() + mixes_offset_) : nullptr;
  }
  size_t size_bytes() const { return buffer_.size_bytes(); }

 private:
  Buffer buffer_;
  std::vector<size_t> offsets_;
  size_t weight_offset_ = 0;
  size_t mixes_offset_ = 0;
};

class Slot {
 public:
  /// kOutOfMemory names --slots and --batch.
  static Result<std::unique_ptr<Slot>> create(const Setup& setup, int32_t index);

  /// What goes into the batch's hash for one sample.
  struct SampleHash {
    uint64_t record = 0;  // checksum, or kDropped
    uint64_t draws = 0;
    uint64_t pixels = 0;  // with hash_pixels
  };
  static constexpr uint64_t kDropped = ~uint64_t{0};

  int32_t index() const { return index_; }
  const Setup& setup() const { return setup_; }
  const BatchMemory& memory() const { return memory_; }
  ImageView image(int64_t i) const;
  std::byte* sample(int field, int64_t i) const {
    return memory_.field(field) +
           static_cast<size_t>(i) * setup_.schema[static_cast<size_t>(field)].sample_bytes();
  }
  void begin(int64_t sequence, const BatchRange& range);
  void add_substitution(Substitution substitution);
  /// Keeps the error of the lowest position. Any thread.
  void fail(int64_t position, Status status);

  std::vector<SamplePlan> plans;   // [capacity]
  std::vector<SampleHash> hashes;  // [capacity]
  BatchMeta meta;
  std::atomic<int64_t> remaining{0};  // samples still to be done

 private:
  Slot(const Setup& setup, int32_t index, BatchMemory memory);

  const Setup& setup_;
  int32_t index_;
  BatchMemory memory_;
  std::mutex mutex_;
  int64_t failed_position_ = 0;
};

}  // namespace dlpipe::pipeline
