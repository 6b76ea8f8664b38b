// The interface between the pipeline and the engine: batches, and an endless, seekable stream of them.
// Anything that is a BatchSource can be trained on.
//
// Ownership: the memory behind every span of a Batch belongs to a slot of its source. Its contents are valid from
// BatchSource::next() until BatchSource::release() of the same batch, or until the source is destroyed, whichever is first.
// Batch itself is a small value that may be copied meanwhile. A copy of `memory` keeps the memory alive even after the source
// is destroyed, and also the contents if the batch wasn't released.
//
// Threads: one consumer thread calls next, release, state and seek; stats may be called from any thread. Cost: next() waits for
// the batch if it isn't ready; a Batch is a few pointers. The stream continues across epochs, so that prefetching doesn't stop
// at the end of an epoch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/stats.h"

namespace dlpipe {

// ---- the last steps from a batch of bytes to a training input: the last ops of augment and the pipeline's mixing describe
// them, and the engine's op batch_prep does them in one pass

/// Mixing of one sample with another of the same batch (mixup: lambda < 1 and an empty box; cutmix: box).
struct SampleMix {
  int32_t partner = -1;  // index in the batch; -1: not mixed
  float lambda = 1.0f;   // weight of the sample's own pixels and label
  Region box;            // cutmix: pixels inside it are the partner's
};

struct BatchPrep {
  static constexpr int kMaxChannels = 4;
  /// output[n,y,x,c] = scale[c] * input[n,y,x,c] + bias[c], in f32, then rounded to dtype.
  std::array<float, kMaxChannels> scale = {1, 1, 1, 1};
  std::array<float, kMaxChannels> bias = {0, 0, 0, 0};
  DType dtype = DType::kF32;
  float label_smoothing = 0.0f;
  std::vector<SampleMix> mix;  // empty, or one per sample
};

// ---- a batch

/// Name, dtype and shape of a field of every batch. Fixed fields: `shape` is that of one sample, data is [capacity, shape...].
/// Ragged fields: samples have any number of rows, `shape` is that of one row, data is [rows, shape...], sample after sample.
struct FieldSpec {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  bool ragged = false;

  /// Bytes of one sample of a fixed field, or of one row of a ragged field.
  size_t sample_bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
};

struct BatchField {
  const FieldSpec* spec = nullptr;
  std::byte* data = nullptr;  // on the batch's device; ragged fields: always in host memory
  /// Ragged: [capacity + 1]; sample i has the rows [offsets[i], offsets[i + 1]). Padding and dropped samples have none.
  std::span<const int64_t> offsets;
};

/// A record that could not be used and what replaced it.
struct Substitution {
  int64_t position = 0;      // index in the epoch's order
  int64_t bad_sample = 0;    // the sample that could not be used
  int64_t used_sample = -1;  // the one used instead; -1: none (weight 0)
  int32_t attempt = 0;       // which attempt succeeded
  std::string reason;        // the error message
};

struct Batch {
  int64_t epoch = 0;
  int64_t index = 0;  // batch number within the epoch
  bool last_in_epoch = false;
  int64_t count = 0;     // the number of samples
  int64_t capacity = 0;  // the batch size
  std::vector<BatchField> fields;
  std::span<const float> weight;        // [capacity], host; 0: padding or dropped, all zeros except the label
  std::span<const int64_t> sample_ids;  // [capacity], host; -1: padding
  const BatchPrep* prep = nullptr;
  /// How samples have already been mixed, [capacity]; empty if they haven't. prep->mix is the mixing still to be done.
  std::span<const SampleMix> mixed;
  std::span<const Substitution> substitutions;
  /// Set if the fields are on a device: the consumer's stream must wait for it before it reads. Null on the
  /// CPU.
  const Event* ready_event = nullptr;
  /// May be set together with ready_event: reached when the copy to the device begins, so that waiting for the batch
  /// and waiting for its copy can be measured separately.
  const Event* copy_event = nullptr;
  /// If the fields are on a device: copies of weight and, unless it is empty, of prep->mix on the device.
  const float* device_weight = nullptr;
  const SampleMix* device_mixes = nullptr;
  /// batches_chain after this batch: a hash over record checksums and drawn parameters of all batches so far.
  uint64_t chain = 0;
  int32_t slot = -1;                   // the source's handle
  std::shared_ptr<const void> memory;  // null: only the source owns the memory

  const BatchField* field(std::string_view name) const {
    for (const BatchField& f : fields) {
      if (f.spec->name == name) return &f;
    }
    return nullptr;
  }
};

// ---- the stream

/// Everything needed to resume with the same batches, on any number of threads: a few integers.
struct SourceState {
  std::string dataset_id;
  std::string pipeline_id;
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t batch_index = 0;       // next batch within the epoch
  int64_t samples_consumed = 0;  // global, over all epochs and ranks
  uint64_t chain = 0;
  std::vector<int64_t> bad_samples;  // distinct samples substituted so far, ascending
  /// If a global batch is cut into grains: one chain per grain, and `chain` is a hash over them. 0 for other ranks' grains.
  std::vector<uint64_t> grain_chains = {};

  friend bool operator==(const SourceState&, const SourceState&) = default;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::span<const FieldSpec> schema() const = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;

  /// The next batch; nullopt after the last epoch, if the source was built for a number of epochs. Helps to
  /// decode while it waits. Returns kMisuse, instead of blocking forever, if the consumer holds every slot.
  virtual Result<std::optional<Batch>> next() = 0;
  /// Releases the slot. With a device, `stream` is the consumer's stream: the slot is reused after the work that is
  /// now in it.
  virtual Status release(const Batch& batch, Stream* stream = nullptr) = 0;

  /// The state after the batches that next() has returned so far; they count as consumed.
  virtual SourceState state() const = 0;
  /// Continues after `state`; kMisuse if it is the state of a different stream, naming the difference (dataset,
  /// pipeline, seed).
  virtual Status seek(const SourceState& state) = 0;

  virtual SourceStats stats() const = 0;

  /// Records bad samples that another rank of the run found in `epoch`, as if this source had found them.
  virtual Status book(int64_t epoch, std::span<const Substitution> substitutions) {
    (void)epoch, (void)substitutions;
    return {};
  }
};

}  // namespace dlpipe
