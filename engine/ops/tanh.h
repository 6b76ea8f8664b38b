// The formula of the op tanh, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine {

/// Hyperbolic tangent.
struct TanhFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  static constexpr bool kCostly = true;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return vector_math::tanh(x);
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return grad * (T(1) - y * y);
  }
};

}  // namespace dlpipe::engine
