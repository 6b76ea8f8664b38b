#include "dlpipe/pipeline/stages/stager.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/stages/device_stager.h"

namespace dlpipe::pipeline {

Batch make_batch(const Setup& setup, const BatchMeta& meta, const BatchMemory& memory, int32_t handle,
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

Status not_lent(const Batch& batch) {
  return misuse("loader", "release of batch ", batch.index, " of epoch ", batch.epoch,
                ", which is not lent; release every batch once, to the loader it came from");
}

namespace {

/// On the CPU the slot is handed over as it is.
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
    // Written before the gate opens, read after; a sequence's place is its own while it is in flight.
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
