// What flatten's kernels take of a shape.
#pragma once

#include <cstdint>
#include <utility>

#include "dlpipe/base/shape.h"

namespace dlpipe::engine {

/// Pixels and channels of an image [N,H,W,C]; of everything else all elements of a sample, and one channel.
inline std::pair<int64_t, int64_t> pixels_and_channels(const Shape& shape) {
  if (shape.rank() == 4) return {shape[1] * shape[2], shape[3]};
  return {shape[0] == 0 ? 0 : shape.elements() / shape[0], 1};
}

}  // namespace dlpipe::engine
