// Axes that several tensors walk together, each with strides of its own.
#pragma once

#include <algorithm>

#include "dlpipe/base/shape.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

template <int kTensors>
struct Axes {
  int count = 0;
  int64_t size[Shape::kMaxRank] = {};  // from the innermost
  int64_t stride[kTensors][Shape::kMaxRank] = {};

  /// The next axis outwards: one that goes on where the last one ends, for all tensors, joins it.
  void add(int64_t length, const int64_t (&strides)[kTensors]) {
    if (length == 1) return;
    bool joins = count > 0;
    for (int k = 0; joins && k < kTensors; ++k) joins = strides[k] == stride[k][count - 1] * size[count - 1];
    if (joins) {
      size[count - 1] *= length;
      return;
    }
    size[count] = length;
    for (int k = 0; k < kTensors; ++k) stride[k][count] = strides[k];
    ++count;
  }

  /// Where the i-th place lies in each tensor. (nvcc divides in 32 bits where numbers are small.)
  DLPIPE_DEVICE void offsets(int64_t i, int64_t (&at)[kTensors]) const {
    for (int k = 0; k < kTensors; ++k) at[k] = 0;
    for (int axis = 0; axis < count; ++axis) {
      const bool last = axis + 1 == count;
      const int64_t outside = last ? 0 : i / size[axis];
      const int64_t here = i - outside * size[axis];
      for (int k = 0; k < kTensors; ++k) at[k] += here * stride[k][axis];
      i = outside;
    }
  }
};

/// body(axis, strides) for the axes of `shape` from the innermost, with the strides of row-major operands
/// that are stretched to it: 0 where one is.
template <int kOperands, class Body>
void each_stretched(const Shape& shape, const Tensor (&operands)[kOperands], const Body& body) {
  int64_t step[kOperands];
  std::fill(step, step + kOperands, 1);
  for (int i = 1; i <= shape.rank(); ++i) {
    int64_t strides[kOperands];
    for (int k = 0; k < kOperands; ++k) {
      const Shape& own = operands[k].shape();
      const int64_t length = i <= own.rank() ? own[-i] : 1;
      strides[k] = length == 1 ? 0 : step[k];
      step[k] *= length;
    }
    body(shape.rank() - i, strides);
  }
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
