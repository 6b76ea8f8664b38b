// Decoding on a device: the choice, made once when a loader opens; the host's half, which sends the packed coefficients under
// each crop (arithmetic/coef_batch.h) instead of decoding and augmenting; and the device's half, which decodes them to pixels.
//
// An unsuitable image is decoded on the host into the same batch. Both produce the same pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arithmetic/coef_batch.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/tile_selection.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/slot.h"

namespace dlpipe::pipeline {

/// Setup::make(), with device_decode filled in after examining some of the dataset's images. Returns kMisuse
/// with the reason if --decode device was requested but is impossible.
Result<std::shared_ptr<const Setup>> open_setup(const LoaderOptions& options);

/// The host's half: copies the packed tiles under a sample's crop into the slot's tile memory. Nothing is decoded here. An
/// object belongs to one thread and keeps its scratch.
class TileSender {
 public:
  explicit TileSender(const Setup& setup);

  /// What the device needs to know about the sample, and the bytes of its tiles. kUnsupported says why the host must decode it.
  Result<size_t> select(const SamplePlan& plan, std::span<const std::byte> image, coef::CoefSample& sample);
  /// Assigns place `i` of the slot to the device; returns the bytes of its tiles. 0: the host must decode it, because it is
  /// unsuitable for the device, the tile memory is full, or the record is corrupt, which the host's decoder then reports as
  /// usual.
  size_t send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i);

 private:
  const augment::Chain& chain_;
  int channels_;
  data::TileSelector selector_;
  coef::CoefSample sample_;
};

/// The device's half: decodes the tile memory of a batch to pixels on the copy stream, and reports corrupt tiles to the host.
/// Belongs to the device stager. Scratch and statuses are one batch's at a time: all work is in one stream.
class TileDecode {
 public:
  /// For a setup in which the device decodes. kOutOfMemory names --batch and --decode.
  static Result<TileDecode> create(const Setup& setup);

  /// Call it after the copy of the slot to `twin` in `stream`. `work` is the result of number_coef_blocks for
  /// the slot's tiles, and `tile_bytes` are the used bytes of its tile memory.
  Status put(const coef::CoefWork& work, size_t tile_bytes, const BatchMemory& twin, Stream& stream);
  /// One per place of the last batch, once the stream has finished it: 0, or 1 if its tiles are corrupt.
  std::span<const int32_t> statuses() const {
    return {reinterpret_cast<const int32_t*>(statuses_.data()), capacity_};
  }
  size_t size_bytes() const { return device_.size_bytes() + statuses_.size_bytes(); }

 private:
  explicit TileDecode(const Setup& setup);

  const Setup* setup_;
  size_t capacity_;
  size_t scratch_begin_;
  Buffer device_;    // statuses, then scratch
  Buffer statuses_;  // the host's copy of the statuses
};

}  // namespace dlpipe::pipeline
