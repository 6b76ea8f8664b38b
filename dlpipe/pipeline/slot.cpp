#include "dlpipe/pipeline/slot.h"

#include <algorithm>

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

BatchMeta::BatchMeta(const Setup& setup) : prep(setup.prep) {
  weight.resize(static_cast<size_t>(setup.options.batch));
  sample_ids.resize(static_cast<size_t>(setup.options.batch));
  if (setup.mixing.is_on()) prep.mix.resize(static_cast<size_t>(setup.options.batch));
}

void BatchMeta::begin(int64_t batch_sequence, const BatchRange& batch_range) {
  sequence = batch_sequence;
  range = batch_range;
  std::fill(weight.begin(), weight.end(), 0.0f);
  std::fill(sample_ids.begin(), sample_ids.end(), -1);
  substitutions.clear();
  hash = 0;
  error = Status();
}

Result<BatchMemory> BatchMemory::allocate(const Setup& setup, Buffer::Memory kind) {
  constexpr size_t kAlignment = 256;  // enough for any vector and for a device's copies
  BatchMemory memory;
  size_t bytes = 0;
  for (const FieldSpec& spec : setup.schema) {
    memory.offsets_.push_back(bytes);
    size_t field = 0;
    if (__builtin_mul_overflow(spec.sample_bytes(), static_cast<size_t>(setup.options.batch), &field) ||
        __builtin_add_overflow(bytes, (field + kAlignment - 1) / kAlignment * kAlignment, &bytes)) {
      return Status(ErrorCode::kOutOfMemory,
                    concat("[loader] a batch of ", setup.options.batch, " samples of ", spec.sample_bytes(),
                           " bytes does not fit an address; use a smaller --batch"));
    }
  }
  memory.weight_offset_ = bytes;
  bytes += static_cast<size_t>(setup.options.batch) * sizeof(float);
  if (setup.mixing.is_on()) {
    memory.mixes_offset_ = bytes;
    bytes += static_cast<size_t>(setup.options.batch) * sizeof(SampleMix);
  }
  auto buffer = Buffer::allocate(*setup.options.device, bytes, kind);
  if (!buffer.ok()) {
    return buffer.status().with_context(concat("[loader] no memory for --slots ", setup.options.slots,
                                               " batches of ", human_bytes(bytes),
                                               "; use fewer slots or a smaller --batch: "));
  }
  memory.buffer_ = *std::move(buffer);
  return memory;
}

Result<std::unique_ptr<Slot>> Slot::create(const Setup& setup, int32_t index) {
  DLPIPE_ASSIGN_OR_RETURN(BatchMemory memory, BatchMemory::allocate(setup, Buffer::Memory::kPinned));
  return std::unique_ptr<Slot>(new Slot(setup, index, std::move(memory)));
}

Slot::Slot(const Setup& setup, int32_t index, BatchMemory memory)
    : plans(static_cast<size_t>(setup.options.batch)),
      hashes(static_cast<size_t>(setup.options.batch)),
      meta(setup),
      setup_(setup),
      index_(index),
      memory_(std::move(memory)) {}

ImageView Slot::image(int64_t i) const {
  const augment::ImageSize& size = setup_.image_size;
  return {reinterpret_cast<uint8_t*>(sample(setup_.image_field, i)), size.width, size.height, size.channels,
          static_cast<ptrdiff_t>(size.width) * size.channels};
}

void Slot::begin(int64_t sequence, const BatchRange& range) {
  meta.begin(sequence, range);
  failed_position_ = 0;
  remaining.store(range.count, std::memory_order_relaxed);  // published with the runs
}

void Slot::add_substitution(Substitution substitution) {
  const std::lock_guard lock(mutex_);
  meta.substitutions.push_back(std::move(substitution));
}

void Slot::fail(int64_t position, Status status) {
  const std::lock_guard lock(mutex_);
  if (!meta.error.ok() && failed_position_ <= position) return;
  failed_position_ = position;
  meta.error = std::move(status);
}

}  // namespace dlpipe::pipeline
