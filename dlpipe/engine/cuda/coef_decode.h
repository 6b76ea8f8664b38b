// Crops of JPEGs from packed coefficient tiles to pixels of a batch, on CUDA: unpacking, dequantisation,
// inverse transform (coef_tiles.h), upsampling and colours (coef_pixels.h), antialiased resize and flip
// (coef_resize.h). Every byte is what the host gives: CoefDecoder, then augment's resize.
//
//   const Result<CoefWork> work = number_coef_blocks(coef_head(host_arena, capacity));
//   ... one copy of the arena to the device, scratch of work->scratch_bytes there ...
//   coef_decode_cuda.decode({device_arena, capacity, *work, scratch, pixels, statuses});
//
// All work goes to the calling thread's stream. Scratch and pixels of all samples but those without
// components are overwritten; nothing outside of a sample's own parts is read or written, whatever its tiles
// hold.
#pragma once

#include <cstdint>

#include "dlpipe/base/coef_batch.h"

namespace dlpipe::engine::cuda {

/// Device memory; arena and scratch aligned to kCoefAlignment.
struct CoefBatch {
  const std::byte* arena = nullptr;  // base/coef_batch.h
  int64_t capacity = 0;              // the arena's samples
  coef::CoefWork work;
  std::byte* scratch = nullptr;
  uint8_t* pixels = nullptr;    // sample i's at CoefSample::out
  int32_t* statuses = nullptr;  // [capacity]: 0, or 1 where a tile is damaged and the pixels mean nothing
};

/// As nvcc compiled it, for callers that it doesn't compile; and as g++ did.
struct CoefDecode {
  void (*decode)(const CoefBatch&);
};
extern const CoefDecode coef_decode_cuda;
extern const CoefDecode coef_decode_cuda_simulated;

}  // namespace dlpipe::engine::cuda
