// The attributes of the op expand, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

struct ExpandAttrs {
  Shape shape;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("shape", self.shape);
  }
};

/// `x` seen as `shape`, which it broadcasts to (numpy's rule): stretched axes have stride 0. Without history.
Tensor expanded_view(const Tensor& x, const Shape& shape);

}  // namespace dlpipe::engine
