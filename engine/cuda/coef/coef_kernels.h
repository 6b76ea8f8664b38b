// The kernels of coef_decode.h, one after another.
#pragma once

#include "dlpipe/engine/cuda/coef/coef_pixels.h"
#include "dlpipe/engine/cuda/coef/coef_resize.h"
#include "dlpipe/engine/cuda/coef/coef_tiles.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline void decode_coefficients(const CoefBatch& batch) {
  const auto& blocks = batch.work.blocks;
  launch(ComputeWeights{batch}, blocks[coef::kWeights]);
  launch(UnpackTiles{batch, group_positions()}, blocks[coef::kTiles]);
  launch(ColorPixels{batch}, blocks[coef::kColors]);
  launch(ResizePass<false>{batch}, blocks[coef::kFirstPass]);
  launch(ResizePass<true>{batch}, blocks[coef::kSecondPass]);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
