// A shape seen as [outer, count, inner] around one axis.
#pragma once

#include <cstdint>

#include "dlpipe/base/shape.h"

namespace dlpipe::engine {

struct AxisSplit {
  int64_t outer = 1;
  int64_t count = 1;
  int64_t inner = 1;

  AxisSplit(const Shape& shape, int axis) : count(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

}  // namespace dlpipe::engine
