// Processes a batch as a whole, once its samples are complete: the stages "batcher", which counts a slot's samples
// down and finishes the batch, and "stager", which passes finished batches to the consumer, in order, on its device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/slot.h"
#include "pipeline/plan/stage_counters.h"

namespace dlpipe::pipeline {

/// Counts down `count` more samples of the slot. Returns true for the call that finishes the batch: it zeroes the
/// padding, draws which samples are mixed, orders the substitutions and hashes the batch, and the slot may then be
/// passed on. Any thread. Cost: one atomic subtraction per portion, and one pass over the batch's hashes at its end.
bool count_down(Slot& slot, int64_t count);

/// HostStager returns the slot itself, without a copy. DeviceStager copies slots to device twins (two by default) on its own
/// copy stream; a slot is free again when its copy is done, a twin when the consumer's stream has passed its release. The host
/// never waits for the device.
///
/// stage() may be called from any thread. The consumer calls grow() and reset() without a lock, while another thread may
/// release. The loader makes one call at a time to the others. The device stager takes a lock a few times per batch.
class Stager {
 public:
  struct Hooks {
    std::function<void(int64_t sequence)> ready;  // the batch may be returned to the consumer
    std::function<void(int32_t slot)> credit;     // the slot may be filled again
    /// The slot's places whose status is not 0 must be filled again, and the slot staged again.
    std::function<void(int32_t slot, std::span<const int32_t> statuses)> again;
  };

  virtual ~Stager() = default;
  /// The slot's batch is complete. Batches may come in any order.
  virtual void stage(Slot& slot) noexcept = 0;
  /// The batch `sequence`, which must be ready. The consumer returns it with release.
  virtual Batch lend(int64_t sequence) = 0;
  /// Data about a borrowed batch that is not in the Batch.
  virtual const BatchMeta& meta(const Batch& batch) const = 0;
  /// kMisuse if `batch` is not borrowed (released twice, or another source's).
  virtual Status release(const Batch& batch, Stream* stream) = 0;
  /// Batches that the consumer may hold at once, how many it holds, and whether this slot is one of them.
  virtual int64_t lendable() const = 0;
  virtual int64_t lent() const = 0;
  virtual bool is_lent(int32_t slot) const = 0;
  /// Allocates memory to hold one more batch; false if the batches are the slots themselves.
  virtual Result<bool> grow() = 0;
  /// Discards what is staged or in flight and starts over with `next_sequence`. Borrowed batches stay borrowed. Called while no
  /// stage() runs.
  virtual Status reset(int64_t next_sequence) = 0;
  /// Memory besides the slots: the twins.
  virtual int64_t device_bytes() const { return 0; }

  /// Creates the stager for setup.options.device. Slots and counters must outlive it.
  static Result<std::unique_ptr<Stager>> create(std::shared_ptr<const Setup> setup, const Slots& slots,
                                                PipelineCounters& counters, int64_t first_sequence,
                                                Hooks hooks);
};

/// The most batches in flight: one per initial slot and one per initial twin. Slots and twins that grow() adds replace those
/// that the consumer keeps, and do not increase the number in flight.
int stager_gates(const Setup& setup);

}  // namespace dlpipe::pipeline
