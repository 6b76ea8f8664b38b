// The formula of the op cos, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_sine.h"

namespace dlpipe::engine {

/// The cosine of x radians; NaN where |x| is above 3.3e9, where floats lie 256 apart.
struct CosFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::cos(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return -(grad * vector_math::sin(x));
  }
};

/// Elementwise.
Tensor cos(const Tensor& x);

}  // namespace dlpipe::engine
