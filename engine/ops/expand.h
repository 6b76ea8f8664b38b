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
/// The gradient of what was expanded from `shape`: each element's is the sum over the places where it stands.
Tensor expanded_gradient(const Tensor& grad, const Shape& shape);

}  // namespace dlpipe::engine
