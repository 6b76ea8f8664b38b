// Decodes crops of JPEGs from packed coefficient tiles to pixels of a batch, on CUDA: unpacking,
// dequantisation, inverse transform, upsampling and colours, antialiased resize and flip (coef_kernels.h).
// Every byte equals the result on the host: CoefDecoder, then augment's resize.
//
//   const Result<CoefWork> work = number_coef_blocks(coef_head(host_tiles, capacity));
//   ... one copy of the tile memory to the device, scratch of work->scratch_bytes there ...
//   coef_decode_cuda({device_tiles, capacity, *work, scratch, pixels, statuses}, stream);
//
// pipeline/stages/device_decode.h does this for the loader's batches.
#pragma once

#include "arithmetic/coef_batch.h"

namespace dlpipe::engine::cuda {

using coef::CoefBatch;

/// A coef::CoefDecode, compiled by nvcc and by g++.
void coef_decode_cuda(const CoefBatch& batch, Stream& stream);
void coef_decode_cuda_simulated(const CoefBatch& batch, Stream& stream);

}  // namespace dlpipe::engine::cuda
