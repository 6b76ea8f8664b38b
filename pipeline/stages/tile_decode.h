// The device's half of decoding there: from the tile memory that came with a batch to its pixels, on the copy
// stream, and word back to the host of tiles that are damaged.
//
// Belongs to the device stager. Scratch and statuses are one batch's at a time: all work is in one stream.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/base/buffer.h"
#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/error.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"

namespace dlpipe::pipeline {

class TileDecode {
 public:
  /// For a setup whose device decodes. kOutOfMemory names --batch and --decode.
  static Result<TileDecode> create(const Setup& setup);

  /// Behind the copy of the slot to `twin` in `stream`: `work` is what number_coef_blocks said of the slot's
  /// tiles, of which `tile_bytes` are used.
  Status put(const coef::CoefWork& work, size_t tile_bytes, const BatchMemory& twin, Stream& stream);
  /// One a place of the batch put last, once the stream has come there: 0, or 1 where its tiles are damaged.
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
  Buffer statuses_;  // as they come back
};

}  // namespace dlpipe::pipeline
