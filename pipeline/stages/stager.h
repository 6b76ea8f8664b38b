// The stage "stager": hands finished batches to the consumer, in order, where it can use them.
//
// HostStager lends the slot itself: no copy. DeviceStager copies slots to device twins (two unless told
// otherwise) on a copy stream of its own; a slot is free again when its copy is done, a twin when the
// consumer's stream has passed its release. The host never waits for the device.
//
// stage() may be called from any thread. grow() and reset() are the consumer's, without a lock, while another thread
// releases. Of the others the loader makes one call at a time. The device stager takes a lock, some times per batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/buffer.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/base/error.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"
#include "dlpipe/pipeline/plan/stage_counters.h"

namespace dlpipe::pipeline {

class Stager {
 public:
  struct Hooks {
    std::function<void(int64_t sequence)> ready;  // the batch may be lent
    std::function<void(int32_t slot)> credit;     // the slot may be filled again
    /// Its places whose status isn't 0 must be filled once more, and the slot staged once more.
    std::function<void(int32_t slot, std::span<const int32_t> statuses)> again;
  };

  virtual ~Stager() = default;
  /// The slot's batch is complete. Batches may come in any order.
  virtual void stage(Slot& slot) noexcept = 0;
  /// The batch `sequence`, which was ready. The consumer gives it back by release.
  virtual Batch lend(int64_t sequence) = 0;
  /// What is known of a lent batch besides the Batch.
  virtual const BatchMeta& meta(const Batch& batch) const = 0;
  /// kMisuse when `batch` isn't lent (released twice, or another source's).
  virtual Status release(const Batch& batch, Stream* stream) = 0;
  /// Batches that the consumer may hold at once, how many it holds, and whether this slot is one of them.
  virtual int64_t lendable() const = 0;
  virtual int64_t lent() const = 0;
  virtual bool is_lent(int32_t slot) const = 0;
  /// Memory of its own for one more batch to be held; false where the batches are the slots themselves.
  virtual Result<bool> grow() = 0;
  /// Nothing is staged any more and nothing is in flight; begins anew with `next_sequence`. What is lent stays
  /// lent. Called when no stage() runs.
  virtual Status reset(int64_t next_sequence) = 0;
  /// Memory besides the slots: the twins.
  virtual int64_t device_bytes() const { return 0; }

  /// The one for setup.options.device. Slots and counters must outlive it.
  static Result<std::unique_ptr<Stager>> create(std::shared_ptr<const Setup> setup, const Slots& slots,
                                                PipelineCounters& counters, int64_t first_sequence,
                                                Hooks hooks);
};

/// Batches between begun and lent at most: one per slot and one per twin that there are at first. Slots and twins that grow()
/// adds stand for batches that the consumer keeps, and don't make more be in flight.
int stager_gates(const Setup& setup);

}  // namespace dlpipe::pipeline
