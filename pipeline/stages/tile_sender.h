// Instead of "decoder" where the device decodes: the packed tiles under a sample's crop go into the slot's tile memory, in the
// place of decoding and augmenting it. Nothing is decoded here; stages/tile_decode.h has the device do it.
//
// An object belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/coef/tile_selection.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"

namespace dlpipe::pipeline {

class TileSender {
 public:
  explicit TileSender(const Setup& setup);

  /// What the device has to know of the sample, and the bytes that its tiles take. kUnsupported says why the
  /// host has to decode it.
  Result<size_t> select(const SamplePlan& plan, std::span<const std::byte> image, coef::CoefSample& sample);
  /// Place `i` of the slot is the device's to decode; answers the bytes that its tiles take. 0: it is the
  /// host's, because it isn't fit for the device, the tile memory is full, or the record is damaged, about which
  /// the host's decoder then says what it always says.
  size_t send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i);

 private:
  const augment::Chain& chain_;
  int channels_;
  data::TileSelector selector_;
  coef::CoefSample sample_;
};

}  // namespace dlpipe::pipeline
