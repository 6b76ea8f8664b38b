// A batch under construction: its memory, allocated once, and what is known of each of its samples.
//
// The loader owns the slots, together with whoever keeps a batch. One thread begins a slot; then many stages write it at once, each portion to its own
// samples; the batcher's countdown hands it on, and from then it belongs to the stager and the consumer. The
// lock is taken only for a bad sample or an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/buffer.h"
#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/sampler.h"
#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

/// A batch of a ragged field (base/batch.h).
struct RaggedValues {
  std::vector<std::byte> values;
  std::vector<int64_t> offsets;  // [capacity + 1], in rows
};

/// What a batch carries beside its fixed fields. On a device it moves on with the pixels, so that the slot is free.
struct BatchMeta {
  int64_t sequence = 0;
  BatchRange range;
  std::vector<float> weight;        // [capacity]
  std::vector<int64_t> sample_ids;  // [capacity]
  std::vector<Substitution> substitutions;
  std::vector<RaggedValues> ragged;  // [schema]; empty where the field is fixed
  BatchPrep prep;
  std::vector<uint64_t> hashes;  // per grain, over its checksums and draws alone
  Status error;                  // of the sample that stands first in the batch

  explicit BatchMeta(const Setup& setup);
  void begin(int64_t batch_sequence, const BatchRange& batch_range);
};

/// One block of memory with every fixed field of a batch in it, the samples' weights and how they are mixed, so
/// that one copy moves all: the pixels first, last the tile memory of coefficients where the device decodes, so
/// that one copy leaves out what isn't needed of either.
class BatchMemory {
 public:
  static Result<BatchMemory> allocate(const Setup& setup, Buffer::Memory kind);
  std::byte* begin() const { return buffer_.data(); }
  /// Where the pixels end, and where the tile memory begins (at the end where there is none), from begin().
  size_t pixels_end() const { return pixels_end_; }
  size_t tiles_begin() const { return tiles_begin_; }
  std::byte* tiles() const { return buffer_.data() + tiles_begin_; }
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
  size_t pixels_end_ = 0;
  size_t tiles_begin_ = 0;
};

class Slot {
 public:
  /// kOutOfMemory names --slots and --batch.
  static Result<std::shared_ptr<Slot>> create(std::shared_ptr<const Setup> setup, int32_t index);

  /// What goes into the batch's hash for one sample.
  struct SampleHash {
    uint64_t record = 0;  // checksum, or kDropped
    uint64_t draws = 0;
    uint64_t pixels = 0;  // with hash_pixels
  };
  static constexpr uint64_t kDropped = ~uint64_t{0};

  int32_t index() const { return index_; }
  const Setup& setup() const { return *setup_; }
  const BatchMemory& memory() const { return memory_; }
  /// Where the sample's bytes are made: its place in the field or, where numbers are made of them once all are
  /// there, a place of the slot's own. Not where they become numbers one by one (sample_worker.h).
  ImageView image(int64_t i) const;
  bool has_bytes_beside() const { return !bytes_beside_.empty(); }
  std::byte* sample(int field, int64_t i) const {
    return memory_.field(field) +
           static_cast<size_t>(i) * setup_->schema[static_cast<size_t>(field)].sample_bytes();
  }
  /// The rows of one sample of a ragged field, until join_ragged() puts them together.
  std::vector<std::byte>& rows(int field, int64_t i) {
    return rows_[static_cast<size_t>(field)][static_cast<size_t>(i)];
  }
  /// Fills meta.ragged from all samples' rows, in the batch's order. Called once all are there.
  void join_ragged();
  int64_t size_bytes() const { return static_cast<int64_t>(memory_.size_bytes() + bytes_beside_.size()); }
  void begin(int64_t sequence, const BatchRange& range);
  /// The places whose status isn't 0 are filled once more, by the host: the device found their tiles damaged.
  /// Answers how many. Called when the slot's batch was complete and nothing reads it any more.
  int64_t begin_again(std::span<const int32_t> statuses);
  void add_substitution(Substitution substitution);
  /// Keeps the error of the lowest position. Any thread.
  void fail(int64_t position, Status status);

  // Where the device decodes (setup.device_decode):

  /// What the device knows of each place; one without components is the host's.
  coef::CoefHead tiles() const;
  /// Room for the sample's tiles and, on the device, its scratch; sets sample.begin. Empty: there is no more.
  std::span<std::byte> take_tiles(coef::CoefSample& sample);
  /// Of the tile memory, its head included.
  size_t tiles_used() const { return tiles_used_.load(std::memory_order_relaxed); }
  /// Where place `i`'s pixels begin in the image field.
  size_t pixel_offset(int64_t i) const {
    return static_cast<size_t>(i) * setup_->schema[static_cast<size_t>(setup_->image_field)].sample_bytes();
  }

  std::vector<SamplePlan> plans;   // [capacity]
  std::vector<SampleHash> hashes;  // [capacity]
  BatchMeta meta;
  std::atomic<int64_t> remaining{0};  // samples still to be done

 private:
  Slot(std::shared_ptr<const Setup> setup, int32_t index, BatchMemory memory);

  const std::shared_ptr<const Setup> setup_;
  int32_t index_;
  BatchMemory memory_;
  std::vector<std::vector<std::vector<std::byte>>>
      rows_;                           // [schema][capacity]; empty where the field is fixed
  std::vector<uint8_t> bytes_beside_;  // [capacity, image] where pictures are mixed and become numbers
  std::atomic<size_t> tiles_used_{0};
  std::atomic<size_t> scratch_used_{0};
  Mutex mutex_;
  int64_t failed_position_ DLPIPE_GUARDED_BY(mutex_) = 0;
};

/// The loader's slots: those it began with, and more up to a number known from the start, so that none moves
/// while others are in use. One thread adds; any thread reads.
class Slots {
 public:
  explicit Slots(int most) : slots_(static_cast<size_t>(most)) {}
  void add(std::shared_ptr<Slot> slot) {
    slots_[static_cast<size_t>(count())] = std::move(slot);
    count_.store(count() + 1, std::memory_order_release);
  }
  int32_t count() const { return count_.load(std::memory_order_acquire); }
  int32_t most() const { return static_cast<int32_t>(slots_.size()); }
  const std::shared_ptr<Slot>& shared(int32_t index) const { return slots_[static_cast<size_t>(index)]; }
  Slot& operator[](int32_t index) const { return *shared(index); }
  /// All are of one size.
  int64_t size_bytes() const;

 private:
  std::vector<std::shared_ptr<Slot>> slots_;
  std::atomic<int32_t> count_{0};
};

}  // namespace dlpipe::pipeline
