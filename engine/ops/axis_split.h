// What ops along one axis share: a shape seen as [outer, count, inner] around it.
#pragma once

#include <cstdint>

#include "dlpipe/base/shape.h"
#include "dlpipe/engine/core/op.h"

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

/// OpRecord::by_sample of an op that works along the attributes' `axis`.
template <class A>
bool is_off_axis_0(const Attrs& attrs) {
  return attrs.as<A>().axis != 0;
}

}  // namespace dlpipe::engine
