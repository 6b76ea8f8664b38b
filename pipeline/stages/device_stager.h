// The stager of a device: a copy stream, twins on the device, events in both directions.
//
//   slot (page-locked) --copy stream--> twin --ready event--> consumer's stream
//     ^ credit when the copy is done      ^ the copy stream waits for release()'s event, then overwrites
//
// Where the device decodes, what is copied is coefficients, and the copy stream goes on to make pixels of
// them (tile_decode.h). Such a batch is ready when the device has said that all tiles were sound; if they
// weren't, the slot goes back to the workers for those samples (Hooks::again) and is staged once more, to the
// same twin.
//
// Batches are staged in order, or a later one could take the last twin and the one that is waited for never
// get any. One lock guards everything; it is taken a few times per batch, by workers, the consumer and never by
// the device's own threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/pipeline/stages/stager.h"
#include "dlpipe/pipeline/stages/tile_decode.h"

namespace dlpipe::pipeline {

class DeviceStager final : public Stager {
 public:
  static constexpr int kTwins = 2;  // to begin with; as many more as there may be slots

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
    std::shared_ptr<const Setup> setup;  // what its batches name their fields by
    BatchMemory memory;
    BatchMeta meta;
    std::unique_ptr<Event> copying;  // its copy begins
    std::unique_ptr<Event> ready;
    std::unique_ptr<Event> released;  // on the consumer's stream
    bool has_reader = false;          // `released` was recorded and must be waited for
    State state = State::kFree;
    int64_t sequence = -1;  // of the batch that is staged or lent
  };

  using Twins = std::vector<std::shared_ptr<Twin>>;  // who keeps a batch keeps its twin

  DeviceStager(std::shared_ptr<const Setup> setup, PipelineCounters& counters, int64_t first_sequence,
               Hooks hooks, std::unique_ptr<Stream> copy_stream, Twins twins,
               std::optional<TileDecode> tiles);
  static Result<std::shared_ptr<Twin>> create_twin(const std::shared_ptr<const Setup>& setup);
  void stage_waiting() noexcept DLPIPE_REQUIRES(mutex_);
  void put(Slot& slot, Twin& twin) noexcept DLPIPE_REQUIRES(mutex_);
  /// Answers whether the batch has tiles, and is ready only when the device has decoded them.
  Result<bool> copy(Slot& slot, Twin& twin) DLPIPE_REQUIRES(mutex_);
  Twin* free_twin() DLPIPE_REQUIRES(mutex_);
  Twin* staged_twin(int64_t sequence) DLPIPE_REQUIRES(mutex_);

  /// From the copy stream, when what copy() put there is done. Without the lock: until then slot and twin are
  /// nobody else's.
  void copied(Slot& slot, Twin& twin, bool has_tiles) noexcept;

  const std::shared_ptr<const Setup> setup_;
  Device& device_;
  StageCounters& counters_;
  Hooks hooks_;
  std::unique_ptr<Stream> copy_stream_;
  Twins twins_ DLPIPE_GUARDED_BY(mutex_);
  std::optional<TileDecode> tiles_;  // where the device decodes
  mutable Mutex mutex_;
  std::vector<Slot*> finished_ DLPIPE_GUARDED_BY(mutex_);  // by sequence, modulo; null: not yet
  int64_t next_sequence_ DLPIPE_GUARDED_BY(mutex_);        // to be staged
  int64_t lent_count_ DLPIPE_GUARDED_BY(mutex_) = 0;
};

/// Shared by the two stagers.
Batch make_batch(const Setup& setup, const BatchMeta& meta, const BatchMemory& memory, int32_t handle,
                 std::shared_ptr<const void> owner);
Status not_lent(const Batch& batch);

}  // namespace dlpipe::pipeline
