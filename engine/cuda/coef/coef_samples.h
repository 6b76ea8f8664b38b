// Which sample of a coefficient batch a block of threads works for, and where that sample's things lie.
#pragma once

#include "dlpipe/engine/cuda/coef/coef_decode.h"
#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// A block's place: the sample, and the block's number among that sample's.
struct CoefPlace {
  int64_t number;  // of the sample
  int64_t block;
  const coef::CoefSample* sample;
  std::byte* scratch;  // the sample's

  template <class T>
  DLPIPE_DEVICE T* in_scratch(uint32_t at) const {
    return reinterpret_cast<T*>(scratch + at);
  }
};

/// The last sample whose first block isn't behind `block`: by halving, the same for all threads.
DLPIPE_DEVICE CoefPlace place_of(const CoefBatch& batch, coef::CoefStep step, int64_t block) {
  const auto* const samples = reinterpret_cast<const coef::CoefSample*>(batch.tiles);
  const auto* const begins =
      reinterpret_cast<const uint32_t*>(batch.tiles + batch.capacity * int64_t{sizeof(coef::CoefSample)}) +
      step * (batch.capacity + 1);
  int64_t low = 0;
  int64_t high = batch.capacity;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (begins[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return {low, block - begins[low], samples + low, batch.scratch + samples[low].scratch};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
