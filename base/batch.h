// A batch as the pipeline lends it to a trainer.
//
// Ownership: the memory behind every span belongs to the slot; what stands there is the batch's from
// BatchSource::next() until BatchSource::release() of the same batch, or until the source ends, whichever is
// first. Batch itself is a small value that may be copied while it is lent; whoever holds `memory` keeps the
// memory, and of a batch that wasn't released its contents too, even after the source has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/shape.h"

namespace dlpipe {

/// Name and form of one field of every batch. Fixed: `shape` is one sample's, data is [capacity, shape...].
/// Ragged: samples have any number of rows, `shape` is one row's, data is [rows, shape...], the samples' one after another.
struct FieldSpec {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  bool ragged = false;

  /// Bytes of one sample of a fixed field, or of one row of a ragged one.
  size_t sample_bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
};

struct BatchField {
  const FieldSpec* spec = nullptr;
  std::byte* data = nullptr;  // on the batch's device; ragged: in host memory, whatever the device
  /// Ragged: [capacity + 1]; sample i has the rows [offsets[i], offsets[i + 1]), padding and dropped samples none.
  std::span<const int64_t> offsets;
};

/// A record that could not be used and what stood in for it.
struct Substitution {
  int64_t position = 0;      // place in the epoch's order
  int64_t bad_sample = 0;    // the sample that should have been there
  int64_t used_sample = -1;  // the one used instead; -1: none (weight 0)
  int32_t attempt = 0;       // which attempt succeeded
  std::string reason;        // the decoder's or checksum's message
};

struct Batch {
  int64_t epoch = 0;
  int64_t index = 0;  // batch number within the epoch
  bool last_in_epoch = false;
  int64_t count = 0;     // samples that are there
  int64_t capacity = 0;  // samples that fit: the batch size
  std::vector<BatchField> fields;
  std::span<const float> weight;        // [capacity], host; 0 = padding or dropped: zeros, but for a label
  std::span<const int64_t> sample_ids;  // [capacity], host; -1 = padding
  const BatchPrep* prep = nullptr;
  /// How samples were mixed already, [capacity]; empty where they weren't. What prep->mix says is still to be done.
  std::span<const SampleMix> mixed;
  std::span<const Substitution> substitutions;
  /// Set when the fields live on a device: the consumer's stream waits on it before it reads. Null on the
  /// CPU.
  const Event* ready_event = nullptr;
  /// May be set with it: reached when the copy to the device begins, so that waiting for the batch and
  /// waiting for its copy can be told apart.
  const Event* copy_event = nullptr;
  /// Where the fields are on a device: the weights and, unless prep->mix is empty, what it holds, there too.
  const float* device_weight = nullptr;
  const SampleMix* device_mixes = nullptr;
  /// batches_chain after this batch: a hash over record checksums and drawn parameters of all batches so far.
  uint64_t chain = 0;
  int32_t slot = -1;                   // the source's own handle
  std::shared_ptr<const void> memory;  // null: the memory is the source's alone

  const BatchField* field(std::string_view name) const {
    for (const BatchField& f : fields) {
      if (f.spec->name == name) return &f;
    }
    return nullptr;
  }
};

}  // namespace dlpipe
