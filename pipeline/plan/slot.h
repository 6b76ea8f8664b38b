// A batch under construction: its memory, allocated once, and the data about each of its samples.
//
// The loader owns the slots, together with holders of batches. One thread starts a slot; then many stages write to it at once,
// each portion to its own samples; the batcher's countdown passes it on, and from then it belongs to the stager and the
// consumer. The lock is taken only for a bad sample or an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arithmetic/coef_batch.h"
#include "base/mutex.h"
#include "dlpipe/batch.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/sampler.h"
#include "pipeline/plan/setup.h"

namespace dlpipe::pipeline {

/// Some samples of one slot: the message that is passed between stages. It is a handle; pixels are never copied.
struct Portion {
  int64_t sequence = 0;  // of the batch, over all epochs
  int32_t slot = 0;
  int32_t first = 0;  // of the batch's samples
  int32_t count = 0;
  bool on_host = false;  // decoded on the host, even if the device decodes others
  bool failed = false;   // its error is in the slot; later stages pass it on
};

/// A batch of a ragged field (dlpipe/batch.h).
struct RaggedValues {
  std::vector<std::byte> values;
  std::vector<int64_t> offsets;  // [capacity + 1], in rows
};

/// The data of a batch other than its fixed fields. With a device it moves along with the pixels, which frees the slot.
struct BatchMeta {
  int64_t sequence = 0;
  BatchRange range;
  std::vector<float> weight;        // [capacity]
  std::vector<int64_t> sample_ids;  // [capacity]
  std::vector<Substitution> substitutions;
  std::vector<RaggedValues> ragged;  // [schema]; empty if the field is fixed
  BatchPrep prep;
  std::vector<uint64_t> hashes;  // per grain, over only its checksums and draws
  Status error;                  // the one at the lowest position in the batch

  explicit BatchMeta(const Setup& setup);
  void begin(int64_t batch_sequence, const BatchRange& batch_range);
};

/// One block of memory with all fixed fields of a batch, the samples' weights and how they are mixed, so that
/// one copy moves all. The pixels are first, and the tile memory of coefficients, if the device decodes, is
/// last, so that the copy can leave out unneeded parts of either.
class BatchMemory {
 public:
  static Result<BatchMemory> allocate(const Setup& setup, Buffer::Memory kind);
  std::byte* begin() const { return buffer_.data(); }
  /// Offsets from begin() of the end of the pixels and of the tile memory (at the end if there is none).
  size_t pixels_end() const { return pixels_end_; }
  size_t tiles_begin() const { return tiles_begin_; }
  std::byte* tiles() const { return buffer_.data() + tiles_begin_; }
  std::byte* field(int index) const { return buffer_.data() + offsets_[static_cast<size_t>(index)]; }
  float* weight() const { return reinterpret_cast<float*>(buffer_.data() + weight_offset_); }
  /// Null if nothing is mixed.
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

  /// One sample's contribution to the batch's hash.
  struct SampleHash {
    uint64_t record = 0;  // checksum, or kDropped
    uint64_t draws = 0;
    uint64_t pixels = 0;  // with hash_pixels
  };
  static constexpr uint64_t kDropped = ~uint64_t{0};

  int32_t index() const { return index_; }
  const Setup& setup() const { return *setup_; }
  const BatchMemory& memory() const { return memory_; }
  /// Where the sample's bytes are written: its place in the field, or a separate place in the slot if all images are
  /// converted to numbers once they are complete. Not used if each is converted separately (stages/sample_worker.h).
  ImageView image(int64_t i) const;
  bool has_bytes_beside() const { return !bytes_beside_.empty(); }
  std::byte* sample(int field, int64_t i) const {
    return memory_.field(field) +
           static_cast<size_t>(i) * setup_->schema[static_cast<size_t>(field)].sample_bytes();
  }
  /// The rows of one sample of a ragged field, until join_ragged() concatenates them.
  std::vector<std::byte>& rows(int field, int64_t i) {
    return rows_[static_cast<size_t>(field)][static_cast<size_t>(i)];
  }
  /// Fills meta.ragged from all samples' rows, in the batch's order. Called when all rows are complete.
  void join_ragged();
  int64_t size_bytes() const { return static_cast<int64_t>(memory_.size_bytes() + bytes_beside_.size()); }
  void begin(int64_t sequence, const BatchRange& range);
  /// Marks the places whose status is not 0 to be filled again by the host, because the device found their tiles corrupt.
  /// Returns how many. Called when the slot's batch was complete and nothing reads it any more.
  int64_t begin_again(std::span<const int32_t> statuses);
  void add_substitution(Substitution substitution);
  /// Keeps the error of the lowest position. Any thread.
  void fail(int64_t position, Status status);

  // If the device decodes (setup.device_decode):

  /// The device's data about each place; one without components is decoded by the host.
  coef::CoefHead tiles() const;
  /// Space for the sample's tiles and, on the device, its scratch; sets sample.begin. Empty if it is full.
  std::span<std::byte> take_tiles(coef::CoefSample& sample);
  /// Used bytes of the tile memory, including its header.
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
  std::vector<std::vector<std::vector<std::byte>>> rows_;  // [schema][capacity]; empty if the field is fixed
  std::vector<uint8_t> bytes_beside_;  // [capacity, image] if images are mixed and converted to numbers
  std::atomic<size_t> tiles_used_{0};
  std::atomic<size_t> scratch_used_{0};
  Mutex mutex_;
  int64_t failed_position_ DLPIPE_GUARDED_BY(mutex_) = 0;
};

/// The loader's slots: the initial ones, and more up to a fixed maximum, so that none moves while others are in use. One thread
/// adds; any thread reads.
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
