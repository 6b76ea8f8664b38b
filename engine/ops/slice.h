// The attributes of the op slice, shared by its record and its kernels on every backend.
#pragma once

#include <cstdint>

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

struct SliceAttrs {
  int axis = 0;  // from the front
  int64_t begin = 0;
  int64_t end = 0;  // 0 <= begin <= end <= size
  int64_t step = 1;

  int64_t count() const { return begin == end ? 0 : (end - begin - 1) / step + 1; }

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
    visit("begin", self.begin);
    visit("end", self.end);
    visit("step", self.step);
  }
};

/// The part of `x`, without history.
Tensor sliced_view(const Tensor& x, const SliceAttrs& attrs);

}  // namespace dlpipe::engine
