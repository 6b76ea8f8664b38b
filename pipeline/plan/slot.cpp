#include "pipeline/plan/slot.h"

#include <algorithm>

#include "base/messages.h"
#include "base/text.h"

namespace dlpipe::pipeline {

BatchMeta::BatchMeta(const Setup& setup) : prep(setup.prep) {
  weight.resize(static_cast<size_t>(setup.options.batch));
  sample_ids.resize(static_cast<size_t>(setup.options.batch));
  hashes.resize(static_cast<size_t>(setup.grains()));
  if (setup.mixing.is_on()) prep.mix.resize(static_cast<size_t>(setup.options.batch));
  ragged.resize(setup.schema.size());
}

void BatchMeta::begin(int64_t batch_sequence, const BatchRange& batch_range) {
  sequence = batch_sequence;
  range = batch_range;
  std::fill(weight.begin(), weight.end(), 0.0f);
  std::fill(sample_ids.begin(), sample_ids.end(), -1);
  substitutions.clear();
  std::fill(hashes.begin(), hashes.end(), 0);
  error = Status();
}

static constexpr size_t kAlignment = 256;  // enough for any vector and for a device's copies

static size_t aligned_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Moves `end` past a batch of the field.
static Status add_field(const FieldSpec& spec, int64_t batch, size_t* end) {
  size_t field = 0;
  if (!__builtin_mul_overflow(spec.sample_bytes(), static_cast<size_t>(batch), &field) &&
      !__builtin_add_overflow(*end, aligned_up(field), end))
    return {};
  return Status(ErrorCode::kOutOfMemory,
                concat("[loader] a batch of ", counted(batch, "sample"), " of ", spec.sample_bytes(),
                       " bytes exceeds the address space; use a smaller --batch"));
}

Result<BatchMemory> BatchMemory::allocate(const Setup& setup, Buffer::Memory kind) {
  BatchMemory memory;
  size_t bytes = 0;
  memory.offsets_.resize(setup.schema.size());
  for (const bool pixels : {true, false}) {
    for (size_t f = 0; f < setup.schema.size(); ++f) {
      if ((static_cast<int>(f) == setup.image_field) != pixels || setup.schema[f].ragged) continue;
      memory.offsets_[f] = bytes;
      DLPIPE_RETURN_IF_ERROR(add_field(setup.schema[f], setup.options.batch, &bytes));
    }
    if (pixels) memory.pixels_end_ = bytes;
  }
  memory.weight_offset_ = bytes;
  bytes += static_cast<size_t>(setup.options.batch) * sizeof(float);
  if (setup.mixing.is_on()) {
    memory.mixes_offset_ = bytes;
    bytes += static_cast<size_t>(setup.options.batch) * sizeof(SampleMix);
  }
  if (setup.device_decode.is_on()) bytes = aligned_up(bytes);
  memory.tiles_begin_ = bytes;
  bytes += setup.device_decode.tile_bytes;
  const bool is_for_others = kind == Buffer::Memory::kPinned && setup.options.pinned_for != nullptr;
  Device& device = is_for_others ? *setup.options.pinned_for : *setup.options.device;
  auto buffer = Buffer::allocate(device, bytes, kind);
  if (!buffer.ok()) {
    return buffer.status().with_context(concat("[loader] out of memory for another batch of ",
                                               human_bytes(bytes),
                                               "; use fewer --slots or a smaller --batch: "));
  }
  memory.buffer_ = *std::move(buffer);
  return memory;
}

Result<std::shared_ptr<Slot>> Slot::create(std::shared_ptr<const Setup> setup, int32_t index) {
  DLPIPE_ASSIGN_OR_RETURN(BatchMemory memory, BatchMemory::allocate(*setup, Buffer::Memory::kPinned));
  return std::shared_ptr<Slot>(new Slot(std::move(setup), index, std::move(memory)));
}

Slot::Slot(std::shared_ptr<const Setup> setup, int32_t index, BatchMemory memory)
    : plans(static_cast<size_t>(setup->options.batch)),
      hashes(static_cast<size_t>(setup->options.batch)),
      meta(*setup),
      setup_(std::move(setup)),
      index_(index),
      memory_(std::move(memory)),
      rows_(setup_->schema.size()) {
  for (size_t f = 0; f < rows_.size(); ++f) {
    if (setup_->schema[f].ragged) rows_[f].resize(plans.size());
  }
  if (setup_->floats.has_value() && setup_->mixing.is_on())
    bytes_beside_.resize(plans.size() * setup_->image_bytes());
}

ImageView Slot::image(int64_t i) const {
  const augment::ImageSize& size = setup_->image_size;
  uint8_t* const pixels = has_bytes_beside() ? const_cast<uint8_t*>(bytes_beside_.data()) +
                                                   static_cast<size_t>(i) * setup_->image_bytes()
                                             : reinterpret_cast<uint8_t*>(sample(setup_->image_field, i));
  return {pixels, size.width, size.height, size.channels, static_cast<ptrdiff_t>(size.width) * size.channels};
}

void Slot::begin(int64_t sequence, const BatchRange& range) {
  meta.begin(sequence, range);
  {
    const MutexLock lock(mutex_);
    failed_position_ = 0;
  }
  remaining.store(range.count, std::memory_order_relaxed);  // published with the portions
  if (!setup_->device_decode.is_on()) return;
  tiles_used_.store(coef::coef_head_bytes(plans.size()), std::memory_order_relaxed);
  scratch_used_.store(0, std::memory_order_relaxed);
  for (coef::CoefSample& sample : tiles().samples) sample.components = 0;
}

int64_t Slot::begin_again(std::span<const int32_t> statuses) {
  int64_t count = 0;
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (statuses[i] == 0) continue;
    ++count;
    tiles().samples[i].components = 0;
    // If a substitute was corrupt, the host processes it, and the sample that it replaces, again.
    const int64_t position = meta.range.first + static_cast<int64_t>(i);
    std::erase_if(meta.substitutions, [&](const Substitution& one) { return one.position == position; });
  }
  remaining.store(count, std::memory_order_relaxed);
  return count;
}

coef::CoefHead Slot::tiles() const {
  return coef::coef_head(memory_.tiles(), plans.size());
}

/// Takes `bytes` of what is left of `most`; false if there are not enough.
static bool take(std::atomic<size_t>& used, size_t bytes, size_t most, size_t* begin) {
  *begin = used.load(std::memory_order_relaxed);
  do {
    if (*begin > most || bytes > most - *begin) return false;
  } while (!used.compare_exchange_weak(*begin, *begin + bytes, std::memory_order_relaxed));
  return true;
}

std::span<std::byte> Slot::take_tiles(coef::CoefSample& sample) {
  size_t scratch = 0;
  size_t begin = 0;
  if (!take(scratch_used_, sample.scratch_bytes, setup_->device_decode.scratch_bytes, &scratch) ||
      !take(tiles_used_, sample.tile_bytes, setup_->device_decode.tile_bytes, &begin))
    return {};
  sample.begin = begin;
  return {memory_.tiles() + begin, sample.tile_bytes};
}

void Slot::join_ragged() {
  for (size_t f = 0; f < rows_.size(); ++f) {
    if (rows_[f].empty()) continue;
    RaggedValues& joined = meta.ragged[f];
    const size_t row_bytes = setup_->schema[f].sample_bytes();
    joined.values.clear();
    joined.offsets.assign(1, 0);
    for (int64_t i = 0; i < setup_->options.batch; ++i) {
      if (i < meta.range.count) {
        const std::vector<std::byte>& rows = rows_[f][static_cast<size_t>(i)];
        joined.values.insert(joined.values.end(), rows.begin(), rows.end());
      }
      joined.offsets.push_back(static_cast<int64_t>(joined.values.size() / row_bytes));
    }
  }
}

void Slot::add_substitution(Substitution substitution) {
  const MutexLock lock(mutex_);
  meta.substitutions.push_back(std::move(substitution));
}

void Slot::fail(int64_t position, Status status) {
  const MutexLock lock(mutex_);
  if (!meta.error.ok() && failed_position_ <= position) return;
  failed_position_ = position;
  meta.error = std::move(status);
}

int64_t Slots::size_bytes() const {
  return count() * (*this)[0].size_bytes();
}

}  // namespace dlpipe::pipeline
