#include "dlpipe/pipeline/stages/device_stager.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

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
  // The copies read the slots and their callbacks call the hooks, and consumers read what they gave back: all of it must
  // be over.
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
    if (twin == nullptr) return;  // release() comes back here
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
  if (has_tiles.ok() && *has_tiles) return;  // copied() goes on
  if (twin.meta.error.ok()) twin.meta.error = has_tiles.status();
  hooks_.ready(twin.sequence);
}

Result<bool> DeviceStager::copy(Slot& slot, Twin& twin) {
  if (twin.has_reader) DLPIPE_RETURN_IF_ERROR(device_.wait(*copy_stream_, *twin.released));
  twin.has_reader = false;
  DLPIPE_RETURN_IF_ERROR(device_.record(*twin.copying, *copy_stream_));
  // One block holds all fields of a batch: one copy. Without the tile memory where nothing is in it, without the
  // pixels where the device makes them all.
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
    std::fill(finished_.begin(), finished_.end(), nullptr);  // from here release() begins no copy
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

}  // namespace dlpipe::pipeline
