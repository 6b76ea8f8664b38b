#include "pipeline/stages/batch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "pipeline/plan/batch_pixels.h"
#include "pipeline/stages/device_decode.h"

namespace dlpipe::pipeline {

// Runs on one thread, while the others process the next batches.
static void mix_into_numbers(Slot& slot) {
  const Setup& setup = slot.setup();
  for (int64_t i = 0; i < slot.meta.range.count; ++i) {
    const SampleMix& mix = slot.meta.prep.mix[static_cast<size_t>(i)];
    std::byte* const out = slot.sample(setup.image_field, i);
    const uint8_t* const pixels = slot.image(i).data;
    if (slot.meta.weight[static_cast<size_t>(i)] == 0) {
      std::memset(out, 0, setup.schema[static_cast<size_t>(setup.image_field)].sample_bytes());
    } else if (mix.partner < 0) {
      setup.floats->convert(pixels, out);
    } else {
      setup.floats->convert_mixed(pixels, slot.image(mix.partner).data, mix, out);
    }
  }
}

// Draws and hashes as if the grain were a separate batch, so that the results do not depend on the number of grains per rank.
static void finish_grain(Slot& slot, int64_t grain) {
  const Setup& setup = slot.setup();
  BatchMeta& meta = slot.meta;
  const int64_t first = grain * setup.grain_samples();
  const auto begin = static_cast<size_t>(first), samples = static_cast<size_t>(setup.grain_samples());
  BatchRange range = meta.range;
  range.index = range.index * setup.options.grains + setup.first_grain() + grain;
  range.first += first;
  range.count = std::clamp<int64_t>(meta.range.count - first, 0, setup.grain_samples());
  const std::span hashes(slot.hashes.data() + begin, static_cast<size_t>(range.count));
  uint64_t hash = data::checksum64(std::as_bytes(hashes), static_cast<uint64_t>(range.count));
  if (!meta.prep.mix.empty()) {
    const std::span mixes = std::span(meta.prep.mix).subspan(begin, samples);
    const std::span weight = std::span(meta.weight).subspan(begin, samples);
    draw_mixes(setup.mixing, setup.options.seed, range, setup.image_size, weight, mixes);
    static_assert(sizeof(SampleMix) == 6 * sizeof(int32_t), "bytes between its members would be hashed");
    hash = data::checksum64(std::as_bytes(mixes), hash);
    for (SampleMix& mix : mixes) {
      if (mix.partner >= 0) mix.partner += static_cast<int32_t>(first);
    }
  }
  meta.hashes[static_cast<size_t>(grain)] = hash;
}

static void finish(Slot& slot) {
  const Setup& setup = slot.setup();
  const int64_t count = slot.meta.range.count;
  const int64_t capacity = setup.options.batch;
  for (size_t f = 0; f < setup.schema.size() && count < capacity; ++f) {
    if (setup.schema[f].ragged) continue;
    const size_t padding = setup.schema[f].sample_bytes() * static_cast<size_t>(capacity - count);
    std::memset(slot.sample(static_cast<int>(f), count), 0, padding);
  }
  slot.join_ragged();
  std::copy(slot.meta.weight.begin(), slot.meta.weight.end(), slot.memory().weight());
  std::vector<SampleMix>& mixes = slot.meta.prep.mix;
  for (int64_t grain = 0; grain < setup.grains(); ++grain) finish_grain(slot, grain);
  if (setup.mixing.is_on()) std::copy(mixes.begin(), mixes.end(), slot.memory().mixes());
  if (slot.has_bytes_beside()) mix_into_numbers(slot);
  // Stable: several bad samples of one position stay in the order of the attempts.
  std::stable_sort(slot.meta.substitutions.begin(), slot.meta.substitutions.end(),
                   [](const Substitution& a, const Substitution& b) { return a.position < b.position; });
}

bool count_down(Slot& slot, int64_t count) {
  // Releases this portion's writes and, for the last one, acquires all others'.
  if (slot.remaining.fetch_sub(count, std::memory_order_acq_rel) != count) return false;
  finish(slot);
  return true;
}

// --- passing batches to the consumer

static Batch make_batch(const Setup& setup, const BatchMeta& meta, const BatchMemory& memory, int32_t handle,
                        std::shared_ptr<const void> owner) {
  Batch batch;
  batch.epoch = meta.range.epoch;
  batch.index = meta.range.index;
  batch.last_in_epoch = meta.range.last_in_epoch;
  batch.count = meta.range.count;
  batch.capacity = setup.options.batch;
  batch.fields.reserve(setup.schema.size());
  for (size_t f = 0; f < setup.schema.size(); ++f) {
    const RaggedValues& ragged = meta.ragged[f];
    batch.fields.push_back({&setup.schema[f],
                            setup.schema[f].ragged ? const_cast<std::byte*>(ragged.values.data())
                                                   : memory.field(static_cast<int>(f)),
                            ragged.offsets});
  }
  batch.weight = meta.weight;
  batch.sample_ids = meta.sample_ids;
  batch.prep = setup.floats.has_value() ? &setup.prep : &meta.prep;
  if (setup.floats.has_value()) batch.mixed = meta.prep.mix;
  batch.substitutions = meta.substitutions;
  batch.slot = handle;
  batch.memory = std::move(owner);
  return batch;
}

static Status not_lent(const Batch& batch) {
  return misuse("loader", "release of batch ", batch.index, " of epoch ", batch.epoch,
                ", which is not borrowed; release each batch once, to the loader it came from");
}

namespace {

/// On the CPU the slot itself is passed to the consumer.
class HostStager final : public Stager {
 public:
  HostStager(const Setup& setup, const Slots& slots, PipelineCounters& counters, Hooks hooks)
      : setup_(setup),
        slots_(slots),
        counters_(counters[Stage::kStager]),
        hooks_(std::move(hooks)),
        slot_of_(static_cast<size_t>(slots.most()), -1),
        lent_(static_cast<size_t>(slots.most()), false) {}

  void stage(Slot& slot) noexcept override {
    // Written before the gate opens and read after it. While a batch is in flight, no other one uses its place.
    slot_of_[static_cast<size_t>(slot.meta.sequence) % slot_of_.size()] = slot.index();
    counters_.items.add(slot.meta.range.count);
    hooks_.ready(slot.meta.sequence);
  }

  Batch lend(int64_t sequence) override {
    const int32_t slot = slot_of_[static_cast<size_t>(sequence) % slot_of_.size()];
    lent_[static_cast<size_t>(slot)] = true;
    ++lent_count_;
    const Slot& lent = slots_[slot];
    return make_batch(setup_, lent.meta, lent.memory(), slot, slots_.shared(slot));
  }

  const BatchMeta& meta(const Batch& batch) const override { return slots_[batch.slot].meta; }

  Status release(const Batch& batch, Stream*) override {
    if (batch.slot < 0 || batch.slot >= slots_.count() || !is_lent(batch.slot)) return not_lent(batch);
    const BatchRange& range = slots_[batch.slot].meta.range;
    if (range.epoch != batch.epoch || range.index != batch.index) return not_lent(batch);
    lent_[static_cast<size_t>(batch.slot)] = false;
    --lent_count_;
    hooks_.credit(batch.slot);
    return {};
  }

  int64_t lendable() const override { return slots_.count(); }
  int64_t lent() const override { return lent_count_; }
  bool is_lent(int32_t slot) const override { return lent_[static_cast<size_t>(slot)]; }
  Result<bool> grow() override { return false; }
  Status reset(int64_t) override {
    std::fill(slot_of_.begin(), slot_of_.end(), -1);
    return {};
  }

 private:
  const Setup& setup_;
  const Slots& slots_;
  StageCounters& counters_;
  Hooks hooks_;
  std::vector<int32_t> slot_of_;  // by sequence, modulo
  std::vector<bool> lent_;        // by slot
  int64_t lent_count_ = 0;
};

}  // namespace

/// The stager of a device: a copy stream, twins on the device, events in both directions.
///
///   slot (page-locked) --copy stream--> twin --ready event--> consumer's stream
///     ^ credit when the copy is done      ^ the copy stream waits for release()'s event, then overwrites
///
/// If the device decodes, coefficients are copied, and the copy stream then decodes them to pixels (device_decode.h). Such a
/// batch is ready when the device has reported that all tiles were valid; if not, the slot goes back to the workers for those
/// samples (Hooks::again) and is staged again, to the same twin.
///
/// Batches are staged in order. Otherwise a later one could take the last twin, and the one that is waited
/// for would never get one. One lock guards everything. Workers and the consumer take it a few times per
/// batch; the device's own threads never do.
class DeviceStager final : public Stager {
 public:
  static constexpr int kTwins = 2;  // initially; grow() adds up to the maximum of slots

  static Result<std::unique_ptr<Stager>> create(std::shared_ptr<const Setup> setup,
                                                PipelineCounters& counters, int64_t first_sequence,
                                                Hooks hooks);
  ~DeviceStager() override;

  void stage(Slot& slot) noexcept override;
  Batch lend(int64_t sequence) override;
  const BatchMeta& meta(const Batch& batch) const override;
  Status release(const Batch& batch, Stream* stream) override;
  int64_t lendable() const override;
  int64_t lent() const override;
  bool is_lent(int32_t) const override { return false; }  // slots are free again once they are copied
  Result<bool> grow() override;
  Status reset(int64_t next_sequence) override;
  int64_t device_bytes() const override;

 private:
  enum class State : uint8_t { kFree, kStaged, kLent };
  struct Twin {
    std::shared_ptr<const Setup> setup;  // keeps the field names of its batches valid
    BatchMemory memory;
    BatchMeta meta;
    std::unique_ptr<Event> copying;  // recorded when its copy begins
    std::unique_ptr<Event> ready;
    std::unique_ptr<Event> released;  // on the consumer's stream
    bool has_reader = false;          // `released` was recorded and must be waited for
    State state = State::kFree;
    int64_t sequence = -1;  // of the batch that is staged or lent
  };

  using Twins = std::vector<std::shared_ptr<Twin>>;  // holding a batch keeps its twin

  DeviceStager(std::shared_ptr<const Setup> setup, PipelineCounters& counters, int64_t first_sequence,
               Hooks hooks, std::unique_ptr<Stream> copy_stream, Twins twins,
               std::optional<TileDecode> tiles);
  static Result<std::shared_ptr<Twin>> create_twin(const std::shared_ptr<const Setup>& setup);
  void stage_waiting() noexcept DLPIPE_REQUIRES(mutex_);
  void put(Slot& slot, Twin& twin) noexcept DLPIPE_REQUIRES(mutex_);
  /// Returns whether the batch has tiles, so that it is ready only when the device has decoded them.
  Result<bool> copy(Slot& slot, Twin& twin) DLPIPE_REQUIRES(mutex_);
  Twin* free_twin() DLPIPE_REQUIRES(mutex_);
  Twin* staged_twin(int64_t sequence) DLPIPE_REQUIRES(mutex_);

  /// Called from the copy stream when copy()'s work is done. Without the lock: until then no other thread uses slot and twin.
  void copied(Slot& slot, Twin& twin, bool has_tiles) noexcept;

  const std::shared_ptr<const Setup> setup_;
  Device& device_;
  StageCounters& counters_;
  Hooks hooks_;
  std::unique_ptr<Stream> copy_stream_;
  Twins twins_ DLPIPE_GUARDED_BY(mutex_);
  std::optional<TileDecode> tiles_;  // set if the device decodes
  mutable Mutex mutex_;
  std::vector<Slot*> finished_ DLPIPE_GUARDED_BY(mutex_);  // by sequence, modulo; null: not yet
  int64_t next_sequence_ DLPIPE_GUARDED_BY(mutex_);        // to be staged
  int64_t lent_count_ DLPIPE_GUARDED_BY(mutex_) = 0;
};

Result<std::unique_ptr<Stager>> DeviceStager::create(std::shared_ptr<const Setup> setup,
                                                     PipelineCounters& counters, int64_t first_sequence,
                                                     Hooks hooks) {
  DLPIPE_ASSIGN_OR_RETURN(auto copy_stream, setup->options.device->create_stream());
  Twins twins;
  for (int i = 0; i < kTwins; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto twin, create_twin(setup));
    twins.push_back(std::move(twin));
  }
  std::optional<TileDecode> tiles;
  if (setup->device_decode.is_on()) {
    DLPIPE_ASSIGN_OR_RETURN(tiles, TileDecode::create(*setup));
  }
  return std::unique_ptr<Stager>(new DeviceStager(std::move(setup), counters, first_sequence,
                                                  std::move(hooks), std::move(copy_stream), std::move(twins),
                                                  std::move(tiles)));
}

Result<std::shared_ptr<DeviceStager::Twin>> DeviceStager::create_twin(
    const std::shared_ptr<const Setup>& setup) {
  Device& device = *setup->options.device;
  DLPIPE_ASSIGN_OR_RETURN(BatchMemory memory, BatchMemory::allocate(*setup, Buffer::Memory::kDevice));
  DLPIPE_ASSIGN_OR_RETURN(auto copying, device.create_event());
  DLPIPE_ASSIGN_OR_RETURN(auto ready, device.create_event());
  DLPIPE_ASSIGN_OR_RETURN(auto released, device.create_event());
  return std::make_shared<Twin>(Twin{setup, std::move(memory), BatchMeta(*setup), std::move(copying),
                                     std::move(ready), std::move(released)});
}

Result<bool> DeviceStager::grow() {
  DLPIPE_ASSIGN_OR_RETURN(auto twin, create_twin(setup_));
  const MutexLock lock(mutex_);
  twins_.push_back(std::move(twin));
  stage_waiting();
  return true;
}

DeviceStager::DeviceStager(std::shared_ptr<const Setup> setup, PipelineCounters& counters,
                           int64_t first_sequence, Hooks hooks, std::unique_ptr<Stream> copy_stream,
                           Twins twins, std::optional<TileDecode> tiles)
    : setup_(std::move(setup)),
      device_(*setup_->options.device),
      counters_(counters[Stage::kStager]),
      hooks_(std::move(hooks)),
      copy_stream_(std::move(copy_stream)),
      twins_(std::move(twins)),
      tiles_(std::move(tiles)),
      finished_(static_cast<size_t>(stager_gates(*setup_)), nullptr),
      next_sequence_(first_sequence) {}

DeviceStager::~DeviceStager() {
  // Waits for copies, which read the slots, for their callbacks, which call the hooks, and for the consumers'
  // work, which may still read released batches.
  (void)device_.synchronize(*copy_stream_);
  for (const auto& twin : twins_) {
    if (twin->has_reader) (void)device_.synchronize(*twin->released);
  }
}

void DeviceStager::stage(Slot& slot) noexcept {
  const MutexLock lock(mutex_);
  if (Twin* const twin = staged_twin(slot.meta.sequence); twin != nullptr) return put(slot, *twin);  // again
  finished_[static_cast<size_t>(slot.meta.sequence) % finished_.size()] = &slot;
  stage_waiting();
}

DeviceStager::Twin* DeviceStager::free_twin() {
  for (const auto& twin : twins_) {
    if (twin->state == State::kFree) return twin.get();
  }
  return nullptr;
}

DeviceStager::Twin* DeviceStager::staged_twin(int64_t sequence) {
  for (const auto& twin : twins_) {
    if (twin->state == State::kStaged && twin->sequence == sequence) return twin.get();
  }
  return nullptr;
}

void DeviceStager::stage_waiting() noexcept {
  while (true) {
    Slot*& place = finished_[static_cast<size_t>(next_sequence_) % finished_.size()];
    if (place == nullptr) return;
    Twin* twin = free_twin();
    if (twin == nullptr) return;  // release() calls this again
    twin->state = State::kStaged;
    twin->sequence = next_sequence_++;
    put(*std::exchange(place, nullptr), *twin);
  }
}

void DeviceStager::put(Slot& slot, Twin& twin) noexcept {
  const ScopedTimer timer(counters_.busy_ns);
  std::swap(twin.meta, slot.meta);
  counters_.items.add(twin.meta.range.count);
  Result<bool> has_tiles = false;
  try {
    has_tiles = copy(slot, twin);
  } catch (...) {
    has_tiles = status_from_current_exception("loader");
  }
  if (has_tiles.ok() && *has_tiles) return;  // copied() continues
  if (twin.meta.error.ok()) twin.meta.error = has_tiles.status();
  hooks_.ready(twin.sequence);
}

Result<bool> DeviceStager::copy(Slot& slot, Twin& twin) {
  if (twin.has_reader) DLPIPE_RETURN_IF_ERROR(device_.wait(*copy_stream_, *twin.released));
  twin.has_reader = false;
  DLPIPE_RETURN_IF_ERROR(device_.record(*twin.copying, *copy_stream_));
  // All fields of a batch are in one block, so one copy suffices. It leaves out the tile memory if that is
  // empty, and the pixels if the device decodes all of them.
  size_t begin = 0;
  size_t end = slot.memory().tiles_begin();
  coef::CoefWork work;
  if (tiles_) {
    DLPIPE_ASSIGN_OR_RETURN(work, coef::number_coef_blocks(slot.tiles()));
    if (work.blocks[coef::kTiles] > 0) end += slot.tiles_used();
    const auto is_sent = [](const coef::CoefSample& sample) { return sample.components > 0; };
    if (std::ranges::all_of(slot.tiles().samples, is_sent)) begin = slot.memory().pixels_end();
  }
  DLPIPE_RETURN_IF_ERROR(device_.copy_async(twin.memory.begin() + begin, slot.memory().begin() + begin,
                                            end - begin, CopyKind::kHostToDevice, *copy_stream_));
  counters_.bytes.add(static_cast<int64_t>(end - begin));
  const bool has_tiles = work.blocks[coef::kTiles] > 0;
  if (has_tiles) DLPIPE_RETURN_IF_ERROR(tiles_->put(work, slot.tiles_used(), twin.memory, *copy_stream_));
  DLPIPE_RETURN_IF_ERROR(device_.record(*twin.ready, *copy_stream_));
  DLPIPE_RETURN_IF_ERROR(
      device_.on_complete(*copy_stream_, [this, &slot, &twin, has_tiles] { copied(slot, twin, has_tiles); }));
  return has_tiles;
}

void DeviceStager::copied(Slot& slot, Twin& twin, bool has_tiles) noexcept {
  if (has_tiles) {
    const std::span<const int32_t> statuses = tiles_->statuses();
    if (std::ranges::any_of(statuses, [](int32_t status) { return status != 0; })) {
      std::swap(twin.meta, slot.meta);
      return hooks_.again(slot.index(), statuses);
    }
    hooks_.ready(twin.sequence);
  }
  hooks_.credit(slot.index());
}

Batch DeviceStager::lend(int64_t sequence) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(twins_.begin(), twins_.end(), [&](const std::shared_ptr<Twin>& t) {
    return t->state == State::kStaged && t->sequence == sequence;
  });
  const std::shared_ptr<Twin>& twin = *found;
  twin->state = State::kLent;
  ++lent_count_;
  Batch batch =
      make_batch(*setup_, twin->meta, twin->memory, static_cast<int32_t>(found - twins_.begin()), twin);
  batch.ready_event = twin->ready.get();
  batch.copy_event = twin->copying.get();
  batch.device_weight = twin->memory.weight();
  batch.device_mixes = twin->memory.mixes();
  return batch;
}

Status DeviceStager::release(const Batch& batch, Stream* stream) {
  const MutexLock lock(mutex_);
  if (batch.slot < 0 || batch.slot >= static_cast<int64_t>(twins_.size())) return not_lent(batch);
  Twin& twin = *twins_[static_cast<size_t>(batch.slot)];
  if (twin.state != State::kLent) return not_lent(batch);
  if (twin.meta.range.epoch != batch.epoch || twin.meta.range.index != batch.index) return not_lent(batch);
  if (stream != nullptr) {
    DLPIPE_RETURN_IF_ERROR(device_.record(*twin.released, *stream));
    twin.has_reader = true;
  }
  twin.state = State::kFree;
  --lent_count_;
  stage_waiting();
  return {};
}

Status DeviceStager::reset(int64_t next_sequence) {
  {
    const MutexLock lock(mutex_);
    std::fill(finished_.begin(), finished_.end(), nullptr);  // from here on release() starts no copy
  }
  Status synchronized = device_.synchronize(*copy_stream_);
  const MutexLock lock(mutex_);
  for (const auto& twin : twins_) {
    if (twin->state == State::kStaged) twin->state = State::kFree;
  }
  next_sequence_ = next_sequence;
  return synchronized;
}

const BatchMeta& DeviceStager::meta(const Batch& batch) const {
  const MutexLock lock(mutex_);
  return twins_[static_cast<size_t>(batch.slot)]->meta;
}

int64_t DeviceStager::lendable() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(twins_.size());
}

int64_t DeviceStager::lent() const {
  const MutexLock lock(mutex_);
  return lent_count_;
}

int64_t DeviceStager::device_bytes() const {
  const MutexLock lock(mutex_);
  int64_t bytes = tiles_ ? static_cast<int64_t>(tiles_->size_bytes()) : 0;
  for (const auto& twin : twins_) bytes += static_cast<int64_t>(twin->memory.size_bytes());
  return bytes;
}

// --- the stager for the options' device

int stager_gates(const Setup& setup) {
  const bool host = setup.options.device->is_host();
  return setup.options.slots + (host ? 0 : DeviceStager::kTwins);
}

Result<std::unique_ptr<Stager>> Stager::create(std::shared_ptr<const Setup> setup, const Slots& slots,
                                               PipelineCounters& counters, int64_t first_sequence,
                                               Hooks hooks) {
  if (setup->options.device->is_host()) {
    return std::unique_ptr<Stager>(std::make_unique<HostStager>(*setup, slots, counters, std::move(hooks)));
  }
  return DeviceStager::create(std::move(setup), counters, first_sequence, std::move(hooks));
}

}  // namespace dlpipe::pipeline
